// A byte stream to and from one rank of a group, made of slots; the same over every fabric.
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

/// The header of a call's first piece to a rank.
struct PieceHead {
  std::uint64_t word = 0;   ///< number of the call, and its mark
  std::uint64_t total = 0;  ///< bytes of the first part
  Signature signature;
};
static_assert(sizeof(PieceHead) <= Piece::kHead);

/// Two slots, one for each direction, whose elements are pieces; a put of a short piece moves only
/// its bytes. The first piece of a call is copied into the link's own memory, the others are sent
/// in place.
class SlotLink {
 public:
  /// Bytes of a tensor, which must stay valid until they are sent.
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

  /// `name`: prefix of the slots' names, to which the link appends the writer. Throws Error.
  SlotLink(p2p::LocalRank& local, p2p::SlotTable& slots, const std::string& name, int peer);
  ~SlotLink();
  SlotLink(const SlotLink&) = delete;
  SlotLink& operator=(const SlotLink&) = delete;
  /// Attaches to the peer's slot. Throws Error.
  void attach(Deadline deadline);

  /// Sets what the next call sends and receives.
  void expect(const PieceHead& head, const Sending& sending, const Taking& taking) noexcept;
  /// The same for a caller that moves the bytes itself, with put() and hold().
  void expect(const PieceHead& head, std::uint64_t out_total, std::uint64_t in_total) noexcept;
  /// Makes all progress that is possible now; sends at most the first `results` pieces of the
  /// second part. Fails if a put has failed.
  Status step(std::size_t results) noexcept;
  /// A received piece of the first part, to be combined; null if there is no such piece.
  const std::byte* held() const noexcept;
  void release() noexcept { held_.release(); }

  // For callers that decide themselves what moves.
  bool has_room() noexcept;
  /// Requires has_room(). If `headed`, `bytes` is at most Piece::kMostHeaded. `more`: another piece
  /// follows at once.
  void put(const Source& source, std::size_t bytes, bool headed, bool more) noexcept;
  /// Returns the oldest received piece, valid until release(); null if there is none.
  const std::byte* hold(bool headed) noexcept;
  /// Copies out of a received piece, and counts the bytes.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  /// Called when this call expects nothing more from the peer. A piece that still arrives is
  /// unexpected, unless it belongs to a later call.
  void watch() noexcept;
  /// The first failure of the link.
  const Status& status() const noexcept { return status_; }

  /// True if everything is put; puts may still be outstanding.
  bool all_put() const noexcept { return sending_.piece_schedule.over(); }
  bool sent() const noexcept { return all_put() && !busy(); }
  /// True if this call's memory of pieces up to number `piece` of the first part, which the call
  /// sends alone, is not read any more.
  bool has_sent(std::size_t piece) noexcept;
  bool taken() const noexcept { return taking_.piece_schedule.over() && !held_; }
  /// True if a piece has arrived that is not released yet.
  bool at_hand() noexcept { return held_ || has_come(); }
  /// True if no put is outstanding.
  bool quiet() noexcept;
  /// True if no user memory is read any more, whether the puts succeeded or not.
  bool at_rest() noexcept;
  /// After a call was given up: cancels puts that have not started.
  void end_sending() noexcept;

  /// The head of a piece that does not belong to this call as expected.
  const std::optional<PieceHead>& unexpected() const noexcept { return unexpected_; }
  std::uint64_t copied() const noexcept { return copied_; }

 private:
  SlotSpec spec(int writer) const;
  Status send_some(std::size_t results) noexcept;
  /// Forgets completed puts, from the oldest on.
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
  std::array<Request, 2 * PieceSchedule::kAhead> requests_;  ///< of puts, by number modulo size
  std::size_t put_ = 0;                                      ///< puts started
  std::size_t oldest_ = 0;                                   ///< oldest put that may be outstanding
  std::size_t first_put_ = 0;                                ///< of the call

  PieceHead head_;
  std::uint64_t in_total_ = 0;
  Sending sending_;
  Taking taking_;
  Arrival ahead_;  ///< belongs to a later call
  Arrival held_;
  std::size_t held_at_ = 0;  ///< bytes of the head in front of the payload
  std::optional<PieceHead> unexpected_;
  Status status_{};
  std::uint64_t copied_ = 0;
};

}  // namespace weft::detail
