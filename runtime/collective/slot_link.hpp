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
#include "runtime/collective/slot_gpu.hpp"
#include "weft/slot.hpp"

namespace weft::detail {

/// The header of a call's first piece to a rank.
struct PieceHead {
  std::uint64_t word = 0;   ///< number of the call, and its mark
  std::uint64_t total = 0;  ///< bytes of the first part
  Signature signature;
};
static_assert(sizeof(PieceHead) <= Piece::kHead);

/// Slots in both directions, whose elements are pieces; a put of a short piece moves only its
/// bytes. The first piece of a call is copied into the link's own memory, the others are sent in
/// place.
///
/// A direction has up to two slots: one of short pieces, and one of long pieces. Each is made for
/// the first call that needs it. All pieces of a call in one direction go by the same slot, which
/// both ends derive from the size of the call's largest piece. So a slot's next piece after a call
/// is the first piece of another call, with a head.
///
/// A call that GPUs carry out sends its heads by the slots of short pieces, which a processor
/// reads, and all else by a slot in the receiver's GPU memory. Its GPU copies and combines what has
/// come; a piece is released once that has ended.
class SlotLink {
 public:
  enum class Width : std::uint8_t { narrow, wide, gpu };
  /// Bytes of a short piece, head included.
  static constexpr std::size_t kNarrow = Piece::kFirst + Piece::kHead;
  /// The slot for pieces of up to `bytes`.
  static Width width_of(std::size_t bytes) noexcept {
    return bytes <= kNarrow ? Width::narrow : Width::wide;
  }
  /// The slots that a call needs.
  struct Widths {
    bool sends = false;
    bool takes = false;
    Width out = Width::narrow;
    Width in = Width::narrow;
    SlotGpu* gpu = nullptr;  ///< that carries the call out; both widths are narrow then
  };

  /// Bytes of a tensor, which must stay valid until they are sent.
  struct Source {
    const Tensor* bytes = nullptr;  ///< u8, dense
    std::size_t offset = 0;
  };
  struct Sending {
    PieceSchedule piece_schedule{};
    Source first{};
    Source second{};
    std::uint64_t by_put = 0;  ///< bytes that the caller sends itself, with put()
  };
  struct Taking {
    PieceSchedule piece_schedule{};
    std::byte* first = nullptr;  ///< null: each piece of the first part is held to be combined
    std::byte* second = nullptr;
    std::uint64_t by_hold = 0;  ///< bytes that the caller takes itself, with hold()
  };

  /// `name`: prefix of the slots' names, to which the link appends the writer. `usual`: bytes of a
  /// piece of a part that has several, the same at both ends.
  /// `copied`: grows by the bytes that the processor copies.
  SlotLink(p2p::LocalRank& local, p2p::SlotTable& slots, std::string name, int peer,
           std::size_t usual, std::uint64_t& copied)
      : local_(local),
        slots_(slots),
        name_(std::move(name)),
        peer_(peer),
        usual_(usual),
        copied_(copied) {}
  ~SlotLink();
  SlotLink(const SlotLink&) = delete;
  SlotLink& operator=(const SlotLink&) = delete;
  /// Makes the slots that are missing, and asks the peer for its own without waiting for the
  /// answer. Throws Error.
  void open(const Widths& widths);
  /// True if open() has nothing to make.
  bool is_open(const Widths& widths) const noexcept;
  /// True if the peer has not answered a request for a slot that the call sends by.
  bool opens() noexcept;
  /// How the pieces of such calls come to the peer's GPU; nullopt: that is not known yet. Requires
  /// open().
  std::optional<p2p::cuda::GpuWay> way_to_gpu(const SlotGpu& gpu) noexcept;

  /// Sets what the next call sends and receives. Requires open(widths).
  void expect(const PieceHead& head, const Widths& widths, const Sending& sending,
              const Taking& taking) noexcept;
  /// Makes progress: sends pieces up to the first long one, of the second part at most the first
  /// `results`, and takes what has come. True if another piece may go at once: the caller polls
  /// first, so that both directions go on together.
  bool step(std::size_t results) noexcept;
  /// A received piece of the first part, to be combined; null if there is no such piece.
  const std::byte* held() const noexcept;
  /// Where it lies.
  const Tensor& held_tensor() const noexcept { return held_.tensor(); }
  /// `copied`: bytes that the processor has copied out of it.
  void release(std::size_t copied = 0) noexcept {
    copied_ += copied;
    held_.release();
  }

  // For callers that decide themselves what moves.
  bool has_room() noexcept;
  /// Requires has_room(). If `headed`, `bytes` is at most Piece::kMostHeaded. `more`: another piece
  /// follows at once.
  void put(const Source& source, std::size_t bytes, bool headed, bool more) noexcept;
  /// Returns the oldest received piece, of `bytes`, valid until release(); null if there is none.
  /// Its address is of no use if it has no bytes.
  const std::byte* hold(bool headed, std::size_t bytes) noexcept;
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
  /// True if a piece of this call has come. Requires expect() with what the link takes.
  bool has_part() const noexcept {
    return !taking_.piece_schedule.over() && !taking_.piece_schedule.next().headed;
  }
  /// True if a piece has arrived that is not released yet.
  bool at_hand() noexcept {
    return held_ || has_come() || (widths_.gpu != nullptr && has_come(Width::gpu));
  }
  /// True if no put is outstanding.
  bool quiet() noexcept;
  /// True if no user memory is read any more, whether the puts succeeded or not.
  bool at_rest() noexcept;
  /// After a call was given up: cancels puts that have not started.
  void end_sending() noexcept;

  /// The head of a piece that does not belong to this call as expected.
  const std::optional<PieceHead>& unexpected() const noexcept { return unexpected_; }

 private:
  static constexpr std::size_t kWidths = 3;
  static std::size_t index(Width width) noexcept { return static_cast<std::size_t>(width); }
  struct Out {  ///< the peer's slot of one width
    std::shared_ptr<PutWriter> remote;
    Tensor stage;
    bool granted = false;
  };
  struct In {  ///< this rank's slot of one width
    std::shared_ptr<PutOwner> slot;
    Arrival ahead;  ///< belongs to a later call, or is unexpected
  };

  SlotSpec spec(int writer, Width width) const;
  bool is_open(Width out, Width in, const Widths& widths) const noexcept {
    return (!widths.takes || ins_[index(in)].slot) && (!widths.sends || outs_[index(out)].remote);
  }
  void open(Width out, Width in, const Widths& widths);
  /// Stores the peer's answer, once there is one.
  void learn_answer(Out& out) noexcept;
  bool may_put(Width width) noexcept;
  void put_head(std::size_t payload, bool more) noexcept;
  Request& next_request() noexcept { return requests_[put_++ % requests_.size()]; }
  /// True if it has sent a long piece.
  bool send_some(std::size_t results) noexcept;
  /// Forgets completed puts, from the oldest on.
  Status reap() noexcept;
  Status take_some() noexcept;
  Status take_some_by_gpu() noexcept;
  const std::byte* hold_on_gpu(bool headed, std::size_t bytes) noexcept;
  bool accepts(const std::byte* head) noexcept;
  bool has_come(Width width) noexcept {
    In& in = ins_[index(width)];
    return in.slot && (in.ahead || in.slot->ready());
  }
  bool has_come() noexcept { return has_come(widths_.in); }
  Result<Arrival> next_arrival(Width width) noexcept;
  void watch(In& in) noexcept;
  /// The call's first piece is awaited: looks whether one has come by the other slot instead.
  void watch_other() noexcept {
    watch(ins_[index(widths_.in == Width::narrow ? Width::wide : Width::narrow)]);
  }
  bool busy() const noexcept { return oldest_ < put_; }

  p2p::LocalRank& local_;
  p2p::SlotTable& slots_;
  const std::string name_;
  const int peer_;
  const std::size_t usual_;
  std::array<Out, kWidths> outs_;
  std::array<In, kWidths> ins_;
  Widths widths_;
  std::array<Request, 2 * PieceSchedule::kAhead> requests_;  ///< of puts, by number modulo size
  std::size_t put_ = 0;                                      ///< puts started
  std::size_t oldest_ = 0;                                   ///< oldest put that may be outstanding
  std::size_t first_put_ = 0;                                ///< of the call

  PieceHead head_;
  std::uint64_t in_total_ = 0;
  Sending sending_;
  Taking taking_;
  Arrival held_;
  std::size_t held_at_ = 0;  ///< bytes of the head in front of the payload
  bool has_head_ = false;    ///< that of a call that GPUs carry out has come
  GpuWork copy_;             ///< of the piece that is held to where it belongs
  std::optional<PieceHead> unexpected_;
  Status status_{};
  std::uint64_t& copied_;
};

}  // namespace weft::detail
