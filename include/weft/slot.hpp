// Slots: named, persistent, registered memory through which two ranks exchange tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {

/// Who writes a slot's buffers.
enum class Writer : std::uint8_t {
  peer,  ///< one other rank puts into the owner's memory; the owner waits for arrivals
  owner  ///< the owner fills its buffers and publishes; any number of ranks view or get them
};

/// What keeps a writer from overtaking a reader.
enum class Flow : std::uint8_t {
  credits,  ///< the reader's credit words; the writer waits for them
  /// The paper's promise: the training loop itself guarantees that a tensor was consumed before
  /// the next is written, so nothing is exchanged for it. WEFT_CHECK=flow verifies the promise.
  unsafe_synchronous
};

/// When a put counts as done.
enum class Until : std::uint8_t {
  reusable,  ///< the source tensor may be written again
  delivered  ///< the owner can see the tensor
};

/// How long a wait needs a rank that is not its slot's peer.
enum class Needed : std::uint8_t {
  always,          ///< it may neither fail nor leave
  until_it_leaves  ///< it may have done its part and leave the job in order
};

/// Where a put's tensor goes. Source: the paper, sections 3.2 and 3.3.
enum class Placement : std::uint8_t {
  fixed,  ///< into the slot's own buffers: every tensor has the slot's shape
  /// Into memory that the owner allocates for each arrival: only the number of dimensions is fixed.
  /// The writer announces shape and place, the owner reads, and the credit is the release.
  dynamic
};

/// A slot's contract; both ends state it and it is compared at attach.
struct SlotSpec {
  std::string name;  ///< unique within its owner; at most 200 bytes
  DType dtype = DType::f32;
  Shape shape;              ///< of a dynamic slot only the number of dimensions counts
  std::uint32_t depth = 1;  ///< transfers that may be under way at once; at most 4096, dynamic 32
  Writer writer = Writer::peer;
  Flow flow = Flow::credits;
  Placement placement = Placement::fixed;
};

/// Makes the tensor that a dynamic arrival is read into: dense, of that dtype and shape, in memory
/// that the caller chooses. May throw weft::Error.
using AllocateTensor = std::function<Tensor(DType, const Shape&)>;

/// A run of a slot's elements and where it goes. `to` holds count elements.
struct SlotRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

namespace detail {
class SlotState;
class RemoteSlotState;
}  // namespace detail

/// A tensor in a slot's buffer, the reader's until it is let go (destroyed or released): that
/// returns the credit. Views the slot's own memory: no copy is made.
/// Must not outlive its Slot or RemoteSlot. Thread-safety: as its slot.
class WEFT_API Arrival {
 public:
  Arrival() noexcept = default;
  Arrival(Arrival&& other) noexcept { take(other); }
  Arrival& operator=(Arrival&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~Arrival() { release(); }

  /// Whether it holds a tensor: it was received and has not been let go.
  explicit operator bool() const noexcept { return tensor_ != nullptr; }
  /// Requires that it holds one.
  const Tensor& tensor() const noexcept { return *tensor_; }
  template <Element T>
  std::span<T> as() const {
    return tensor_->as<T>();
  }
  /// Counts from 1 with the slot's first tensor.
  std::uint64_t sequence() const noexcept { return sequence_; }
  void release() noexcept {
    if (tensor_ != nullptr) release_tensor();
  }

 private:
  void take(Arrival& other) noexcept {
    tensor_ = std::exchange(other.tensor_, nullptr);
    sequence_ = other.sequence_;
    slot_ = other.slot_;
    remote_ = other.remote_;
  }
  void release_tensor() noexcept;

  friend class detail::SlotState;
  friend class detail::RemoteSlotState;
  const Tensor* tensor_ = nullptr;
  std::uint64_t sequence_ = 0;
  detail::SlotState* slot_ = nullptr;
  detail::RemoteSlotState* remote_ = nullptr;
};

/// One operation under way. Holds nothing when the operation completed at once.
/// Destroying it does not end the operation. Thread-safety: as the RemoteSlot it came from,
/// which it must not outlive.
class [[nodiscard]] WEFT_API Request {
 public:
  Request() noexcept = default;

  /// Whether the operation has ended (well or not); never blocks.
  bool test() noexcept;
  /// A timeout leaves the operation alive and the source lent to it.
  Status wait(Deadline deadline = {}) noexcept;
  /// Ends an operation that has not begun to move data (Code::cancelled from then on); one that
  /// has ended stays as it is. A tensor that is on its way, or announced to a dynamic slot, can't
  /// be taken back: bad_argument, and the request lives on.
  Status cancel() noexcept;

 private:
  friend class detail::RemoteSlotState;
  friend class World;
  detail::RemoteSlotState* remote_ = nullptr;
  std::uint64_t ticket_ = 0;
  Status status_;
};

/// The owner's end. One thread at a time. Destruction returns at once: the peer is told, and the
/// memory stays in quarantine until the peer has agreed or is dead.
class WEFT_API Slot {
 public:
  Slot() noexcept;
  Slot(Slot&&) noexcept;
  Slot& operator=(Slot&&) noexcept;
  ~Slot();

  const SlotSpec& spec() const noexcept;

  /// Writer::peer: the next tensor, in the order of the puts. Errors: timeout (names slot, writer,
  /// sequence expected and seen), peer_failed, peer_left, closed, mismatch (a writer whose contract
  /// differs was refused; reported once, the slot stays usable). A dynamic tensor is allocated and
  /// read here; also exhausted then (the tensor waits on), and a copy of its handle keeps it beyond
  /// its Arrival.
  Result<Arrival> wait(Deadline deadline = {}) noexcept;
  /// Writer::peer: whether wait() would return at once.
  bool ready() const noexcept;

  /// Placement::dynamic: from now on arrivals are read into tensors that `allocate` makes, not into
  /// the world's arena.
  void allocate_with(AllocateTensor allocate);

  /// Writer::owner: the buffer to fill for the next version. With credits it is one that no reader
  /// views, and not the newest value's unless there is only one; when there is none, the error
  /// names the reader that has viewed for longest. A dead reader views nothing.
  Result<Tensor> next(Deadline deadline = {}) noexcept;
  /// Writer::owner: makes the buffer that next() gave visible to the readers.
  Status publish() noexcept;
  /// Writer::owner: ranks attached now.
  int readers() const noexcept;

  /// From now on waits here also end when one of `ranks` is dead or has left: for a loop that can't
  /// go on without them, although this slot's own peer lives.
  void also_needs(std::span<const int> ranks, Needed needed = Needed::always);

 private:
  friend class World;
  friend class detail::SlotState;
  explicit Slot(std::shared_ptr<detail::SlotState> state) noexcept;
  std::shared_ptr<detail::SlotState> state_;
};

/// The other end: the writer of a Writer::peer slot, or a reader of a Writer::owner slot.
/// One thread at a time. Destruction detaches; what was put before stays in the slot.
class WEFT_API RemoteSlot {
 public:
  RemoteSlot() noexcept;
  RemoteSlot(RemoteSlot&&) noexcept;
  RemoteSlot& operator=(RemoteSlot&&) noexcept;
  ~RemoteSlot();

  const SlotSpec& spec() const noexcept;
  int owner() const noexcept;

  /// Moves the tensor into the slot's next buffer and notifies the owner. dtype and shape must be
  /// the slot's. It is lent until the request has ended, and its handle held until then, even if
  /// this end goes first. Without a credit the put stays pending (at most 64 of them; then
  /// exhausted). A tensor outside the world's arena is staged first: counted as copied. Strides
  /// cost no packing. Into a dynamic slot, a tensor stays lent until the owner has read it,
  /// whatever `until` says, and one with strides is packed first.
  Request put(const Tensor& tensor, Until until = Until::reusable) noexcept;
  /// The same for several tensors of the slot's dtype whose elements, in this order, fill the
  /// slot's shape: one operation. Not into a dynamic slot.
  Request put(std::span<const Tensor> parts, Until until = Until::reusable) noexcept;

  /// Writer::owner: waits for a version newer than the last one seen here and views the newest
  /// where it lies.
  Result<Arrival> view(Deadline deadline = {}) noexcept;
  /// The same version into `into`, whose dtype and shape must be the slot's. After a timeout
  /// nothing was got; by RDMA memory that a NIC may still write stays lent then: to the next view()
  /// or get() of this end, which waits for that first, or to the end of this end, which fails the
  /// path if it must. A tensor's handle is held so long; memory of runs must stay.
  Status get(const Tensor& into, Deadline deadline = {}) noexcept;
  /// The same, only the given runs of elements, each to a place of its own: one operation.
  Status get(std::span<const SlotRun> runs, Deadline deadline = {}) noexcept;
  /// Writer::owner: whether view() would return at once.
  bool ready() const noexcept;
  /// Writer::owner: the next view() or get() takes the newest version even if it is the last that
  /// was seen here. Whether the owner still has it is the owner's affair: one whose buffer it fills
  /// again is not to be had, and a newer one is waited for.
  void see_again() noexcept;

  /// As Slot::also_needs.
  void also_needs(std::span<const int> ranks, Needed needed = Needed::always);

  /// By how many queue pairs the owner is reached; 1 where the fabric has no such thing.
  int queue_pairs() const noexcept;
  /// From now on puts go by that one, whole, and so in the order of other slots' puts by it. Only
  /// before the first put: throws Error(bad_argument) later, and for one that there is not.
  /// Otherwise weft chooses, and large tensors go by all of them.
  void use_queue_pair(int index);

 private:
  friend class World;
  explicit RemoteSlot(std::shared_ptr<detail::RemoteSlotState> state) noexcept;
  std::shared_ptr<detail::RemoteSlotState> state_;
};

}  // namespace weft
