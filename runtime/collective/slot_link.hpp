// Bytes to and from one rank of a group, by slots: the same over every fabric.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "p2p/slot/slot_table.hpp"
#include "runtime/collective/piece_schedule.hpp"
#include "runtime/collective/signature.hpp"
#include "weft/slot.hpp"

namespace weft::detail {

/// What goes ahead of a call's first piece to a rank.
struct PieceHead {
  std::uint64_t word = 0;   ///< number of the call and its fingerprint
  std::uint64_t total = 0;  ///< bytes of the first part
  Signature signature;
};
static_assert(sizeof(PieceHead) <= Piece::kHead);

/// A slot each way, of pieces as they come: a put of a short one moves no more than its bytes. The
/// first piece of a call goes by way of memory of the link's own, and the others from where they
/// lie.
class SlotLink {
 public:
  /// Bytes of a tensor, which the link holds until they were sent.
  struct Source {
    const Tensor* bytes = nullptr;  ///< u8, dense
    std::size_t offset = 0;
  };
  struct Sending {
    PieceSchedule piece_schedule{};
    Source first{};
    Source second{};
  };
  struct Taking {
    PieceSchedule piece_schedule{};
    std::byte* first = nullptr;  ///< null: each piece of the first part is held to be combined
    std::byte* second = nullptr;
  };

  /// `name`: the slots', without their writers. Throws Error.
  SlotLink(p2p::LocalRank& local, p2p::SlotTable& slots, const std::string& name, int peer);
  ~SlotLink();
  SlotLink(const SlotLink&) = delete;
  SlotLink& operator=(const SlotLink&) = delete;
  /// Throws Error.
  void attach(Deadline deadline);

  /// What is to be sent and taken in the next call.
  void expect(const PieceHead& head, const Sending& sending, const Taking& taking) noexcept;
  /// Nothing by itself: what follows puts and takes.
  void expect(const PieceHead& head, std::uint64_t out_total, std::uint64_t in_total) noexcept;
  /// Moves what can be moved, of the second part the first `results` pieces. Not ok: a put failed.
  Status step(std::size_t results) noexcept;
  /// A piece of the first part, there to be combined; null while there is none.
  const std::byte* held() const noexcept;
  void release() noexcept { held_.release(); }

  // By whoever knows what is to be moved.
  bool has_room() noexcept;
  /// Requires has_room(). Headed: at most Piece::kMostHeaded.
  void put(const Source& source, std::size_t bytes, bool headed) noexcept;
  /// What has come, until release(); null while there is nothing.
  const std::byte* hold(bool headed) noexcept;
  /// Out of what came, which is counted.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  /// Nothing more is expected in this call: what comes all the same is unexpected, unless it is of
  /// a later one.
  void watch() noexcept;
  /// What has failed.
  const Status& status() const noexcept { return status_; }

  /// Whether all was put; puts may be under way.
  bool all_put() const noexcept { return sending_.piece_schedule.over(); }
  bool sent() const noexcept { return all_put() && !busy(); }
  bool taken() const noexcept { return taking_.piece_schedule.over() && !held_; }
  /// Whether something has come that was not let go.
  bool at_hand() noexcept { return held_ || has_come(); }
  /// Whether nothing that was put is under way.
  bool quiet() noexcept;
  /// Whether no memory of the user's is read any more, whatever became of the puts.
  bool at_rest() noexcept;
  /// Of a call that was given up: what has not begun to be sent never is.
  void end_sending() noexcept;

  /// The head of a piece that is not what was expected.
  const std::optional<PieceHead>& unexpected() const noexcept { return unexpected_; }
  std::uint64_t copied() const noexcept { return copied_; }

 private:
  SlotSpec spec(int writer) const;
  Status send_some(std::size_t results) noexcept;
  /// Forgets the puts that have ended, from the oldest on.
  Status reap() noexcept;
  Status take_some() noexcept;
  bool accepts(const std::byte* head) noexcept;
  bool has_come() noexcept { return ahead_ || slot_->ready(); }
  Result<Arrival> next_arrival() noexcept;
  bool busy() const noexcept { return oldest_ < put_; }

  p2p::LocalRank& local_;
  p2p::SlotTable& slots_;
  const std::string name_;
  const int peer_;
  std::shared_ptr<PutOwner> slot_;
  std::shared_ptr<PutWriter> remote_;
  Tensor stage_;
  std::array<Request, 2 * PieceSchedule::kAhead> requests_;  ///< of puts, by their number
  std::size_t put_ = 0;
  std::size_t oldest_ = 0;  ///< that may still be under way

  PieceHead head_;
  std::uint64_t in_total_ = 0;
  Sending sending_;
  Taking taking_;
  Arrival ahead_;  ///< of a later call
  Arrival held_;
  std::size_t held_at_ = 0;  ///< bytes of head in front
  std::optional<PieceHead> unexpected_;
  Status status_{};
  std::uint64_t copied_ = 0;
};

}  // namespace weft::detail
