// Slots that another rank puts into: named, persistent, registered memory through which two ranks
// exchange tensors. weft/published_slot.hpp has the other kind, which its owner publishes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/device.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {

class RemoteSignal;

/// How a slot's writer is kept from overwriting what a reader still reads.
enum class Flow : std::uint8_t {
  credits,  ///< the writer waits for the reader's credits
  /// No credits: the training loop itself guarantees that a tensor was consumed before the next one
  /// is written. WEFT_CHECK=flow verifies this: a put that finds the tensor before it in its buffer
  /// unreleased ends with flow_overrun, and writes nothing. Source: the paper, section 3.2.
  unsafe_synchronous
};

/// When a put counts as done.
enum class Until : std::uint8_t {
  reusable,  ///< the source tensor may be written again
  delivered  ///< the owner can see the tensor
};

/// How long a wait needs a rank that is not its slot's peer.
enum class Needed : std::uint8_t {
  always,          ///< the rank may neither fail nor leave
  until_it_leaves  ///< the rank may leave the job in order, but not fail
};

/// Where a put's tensor goes. Source: the paper, sections 3.2 and 3.3.
enum class Placement : std::uint8_t {
  fixed,  ///< into the slot's own buffers: every tensor has the slot's shape
  /// Into memory that the owner allocates for each arrival: only the number of dimensions is fixed.
  /// The writer announces shape and address, the owner reads the tensor, and the credit releases
  /// it.
  dynamic
};

/// A slot's contract. Both ends state it; attach compares the two, but for `memory`.
struct SlotSpec {
  std::string name;  ///< unique within its owner; at most 200 bytes
  DType dtype = DType::f32;
  Shape shape;              ///< of a dynamic slot only the number of dimensions counts
  std::uint32_t depth = 1;  ///< transfers that may be under way at once; at most 4096, dynamic 32
  Flow flow = Flow::credits;
  Placement placement = Placement::fixed;
  /// Where the owner's buffers lie, and of a dynamic slot the tensors that are read: host memory,
  /// or a GPU (Memory::gpu() is the rank's). The owner's affair: the writer's is not looked at, and
  /// its tensors may lie elsewhere.
  Memory memory{};
};

/// Makes the tensor that a dynamic arrival is read into: dense, of that dtype and shape, in memory
/// that the caller chooses. May throw weft::Error.
using AllocateTensor = std::function<Tensor(DType, const Shape&)>;

namespace detail {
class PutOwner;
class PutWriter;
class VersionReader;
struct SlotAccess;
}  // namespace detail

/// A tensor that was received or viewed. The caller may read it until it releases or destroys the
/// Arrival, which returns the credit. Views the slot's own memory without a copy. If it outlives
/// its Slot or PublishedReader, or the world, it keeps the memory. Thread-safety: as its slot.
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

  /// Whether it holds a tensor: received and not released.
  explicit operator bool() const noexcept { return tensor_ != nullptr; }
  /// A tensor without memory if it holds none.
  const Tensor& tensor() const noexcept { return tensor_ != nullptr ? *tensor_ : no_tensor(); }
  /// Throws Error(bad_argument) if it holds none; see Tensor::as().
  template <Element T>
  std::span<T> as() const {
    if (tensor_ == nullptr) detail::refuse_empty("Arrival", "as");
    return tensor_->as<T>();
  }
  /// Number of the tensor or version; the slot's first has 1. 0: part of a captured graph.
  std::uint64_t sequence() const noexcept { return sequence_; }
  void release() noexcept {
    if (tensor_ != nullptr) release_tensor();
  }
  /// The same behind what is on the stream: the call returns at once, and the credit once that is
  /// done. For a Slot of fixed shape. Errors, with which it stays as it is: bad_argument (another
  /// kind of slot, no such stream), system. In a captured graph each replay releases what it has
  /// taken; for arrivals of the same capture alone (else bad_argument). One that no replay releases
  /// is released when the next one comes to its wait, or by a later call once the graph is gone;
  /// until then its buffer stays taken.
  Status release(Stream stream) noexcept;
  /// After Slot::wait_on: the word that tells, behind the stream's wait, whether the tensor came:
  /// 0, or else the number of a Code. In host memory that all of the process's GPUs reach; valid
  /// until the release, and in a captured graph as long as that. Null: the call itself has waited.
  const std::uint32_t* outcome() const noexcept { return outcome_; }

 private:
  void take(Arrival& other) noexcept {
    tensor_ = std::exchange(other.tensor_, nullptr);
    sequence_ = std::exchange(other.sequence_, 0);
    owner_ = other.owner_;
    reader_ = other.reader_;
    outcome_ = std::exchange(other.outcome_, nullptr);
  }
  void release_tensor() noexcept;
  void forget_tensor() noexcept;
  static const Tensor& no_tensor() noexcept;

  friend struct detail::SlotAccess;
  const Tensor* tensor_ = nullptr;
  std::uint64_t sequence_ = 0;
  detail::PutOwner* owner_ = nullptr;        ///< set if a Slot received it
  detail::VersionReader* reader_ = nullptr;  ///< set if a PublishedReader viewed it
  const std::uint32_t* outcome_ = nullptr;
};

/// One operation under way. Holds nothing when the operation completed at once.
/// Destroying it does not end the operation. If it outlives its RemoteSlot, an operation that was
/// under way is Code::closed. A default-constructed one has ended well, and so has one that was
/// moved from. Thread-safety: as the RemoteSlot it came from.
class [[nodiscard]] WEFT_API Request {
 public:
  Request() noexcept = default;
  Request(const Request&) noexcept = default;
  Request& operator=(const Request&) noexcept = default;
  Request(Request&& other) noexcept { take(other); }
  Request& operator=(Request&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~Request() = default;

  /// Whether the operation has ended (well or not); never blocks.
  bool test() noexcept;
  /// A timeout leaves the operation alive and the source lent to it.
  Status wait(Deadline deadline = {}) noexcept;
  /// The stream waits in place of the thread: what is put on it later begins once the operation has
  /// ended. An operation that fails or is late (it is cancelled then, where that can be) lets the
  /// stream go on, and the RemoteSlot's next put or wait with a stream returns why. Errors of the
  /// call itself: those of an operation that has ended, bad_argument (no such stream), system.
  /// Stream() is no stream: as wait(). The request of a put in a captured graph is for this call
  /// alone, on a stream of the same capture: each replay waits for its own put, for as long as
  /// `deadline` is away now. test() is true, and wait() and cancel() are bad_argument.
  Status wait_on(Stream stream, Deadline deadline = {}) noexcept;
  /// Ends an operation that has not begun to move data (Code::cancelled from then on); an operation
  /// that has ended stays as it is. bad_argument if the tensor is already on its way, or announced
  /// to a dynamic slot; the request lives on then.
  Status cancel() noexcept;

 private:
  friend struct detail::SlotAccess;
  friend class World;
  void take(Request& other) noexcept {
    writer_ = std::exchange(other.writer_, nullptr);
    life_ = other.life_;
    mark_ = other.mark_;
    ticket_ = other.ticket_;
    status_ = std::move(other.status_);
  }
  /// The writer, unless the operation has ended or its RemoteSlot has gone.
  detail::PutWriter* living() noexcept;

  detail::PutWriter* writer_ = nullptr;
  /// Says whether the writer is still there: the word equals the mark as long as it is.
  const std::atomic<std::uint64_t>* life_ = nullptr;
  std::uint64_t mark_ = 0;
  std::uint64_t ticket_ = 0;
  Status status_;
};

/// The owner's end of a slot that one other rank puts into. One thread at a time. Destruction
/// returns at once: the peer is told, and the memory stays in quarantine until the peer has agreed
/// or is dead.
class WEFT_API Slot {
 public:
  Slot() noexcept;
  Slot(Slot&&) noexcept;
  Slot& operator=(Slot&&) noexcept;
  ~Slot();

  const SlotSpec& spec() const noexcept;

  /// The next tensor, in the order of the puts. Errors: timeout (names slot, writer, sequence
  /// expected and seen), peer_failed, peer_left, closed, mismatch (a writer whose contract differs
  /// was refused; reported once, the slot stays usable). For a slot on a GPU, wait() returns once
  /// the tensor is in the GPU's memory: system if the GPU's driver fails, and after that or a
  /// timeout the next wait() takes the same tensor up (a dynamic slot passes it over after system).
  /// A GPU that reads the tensor must have read
  /// it before the Arrival is released. For a dynamic slot, wait() allocates and
  /// reads the tensor, and a copy of the tensor's handle keeps it beyond its Arrival; it can then
  /// also return exhausted (the tensor stays with its writer, and the next wait() tries again).
  Result<Arrival> wait(Deadline deadline = {}) noexcept;
  /// The stream waits in place of the thread: returns at once with the arrival to come, whose
  /// tensor is there for what is put on the stream later. For slots of fixed shape on a GPU; of one
  /// in host memory the thread waits. If the tensor does not come, the stream goes on all the same,
  /// Arrival::outcome() says so to the GPU, and the next wait returns why, and begins anew with
  /// that tensor; so it is with all that were waited for behind it. release() of such an arrival
  /// takes effect when the tensor has come. The first such call waits on the thread until no stream
  /// of this rank waits, to pin memory, and a call while `depth` streams wait here waits for one of
  /// those (both: timeout, by `deadline`). Errors of the call itself: those of wait(), bad_argument
  /// (a dynamic slot, no such stream). Stream() is no stream: as wait().
  /// If the stream captures a graph, each replay takes the next tensor and brings it to the one
  /// address of the arrival's tensor: the slot's buffer at depth 1, else the graph's own memory, by
  /// a copy on the GPU. A replay waits for as long as `deadline` is away now, from when the stream
  /// comes to the wait. Once one has failed all do, until the next call of a wait here has returned
  /// why. Once the slot has gone outcome() is `closed`. More errors: bad_argument (a slot in host
  /// memory, CUDA_LAUNCH_BLOCKING, a simulated job), exhausted (no words, or no memory).
  Result<Arrival> wait_on(Stream stream, Deadline deadline = {}) noexcept;
  /// Whether wait() would return at once, but for the copy of what has come into a GPU's memory.
  bool ready() const noexcept;

  /// For a dynamic slot: arrivals are read into tensors that `allocate` makes instead of the
  /// world's arena. Throws Error(bad_argument) for a slot of fixed shape.
  void allocate_with(AllocateTensor allocate);

  /// Waits here also end when one of `ranks` is dead or has left: for a loop that needs these ranks
  /// although the slot's own peer lives.
  void also_needs(std::span<const int> ranks, Needed needed = Needed::always);

 private:
  friend class World;
  explicit Slot(std::shared_ptr<detail::PutOwner> state) noexcept;
  std::shared_ptr<detail::PutOwner> state_;
};

/// The writer's end of a Slot. One thread at a time. Destruction detaches; what was put before
/// stays in the slot.
class WEFT_API RemoteSlot {
 public:
  RemoteSlot() noexcept;
  RemoteSlot(RemoteSlot&&) noexcept;
  RemoteSlot& operator=(RemoteSlot&&) noexcept;
  ~RemoteSlot();

  const SlotSpec& spec() const noexcept;
  int owner() const noexcept;

  /// Moves the tensor into the slot's next buffer and notifies the owner. dtype and shape must be
  /// the slot's (else mismatch), and the tensor must have memory (else bad_argument). The tensor is
  /// lent until the request has ended, and its handle held until then, even if this end goes first.
  /// Without a credit the put stays pending (at most 64 of them; then exhausted). A tensor outside
  /// the world's arena is staged first: counted as copied. So is one on a GPU, by a copy that goes
  /// on by itself, counted as staged; its put is pending meanwhile, and it must be dense. Into a
  /// slot on a GPU of this host that copy is the whole way, and can't be cancelled. Strides
  /// cost no packing. Into a dynamic slot, a tensor stays lent until the owner has read it,
  /// whatever `until` says, and a tensor with strides is packed first.
  Request put(const Tensor& tensor, Until until = Until::reusable) noexcept;
  /// The same for several tensors of the slot's dtype whose elements, in this order, fill the
  /// slot's shape: one operation. Not into a dynamic slot.
  Request put(std::span<const Tensor> parts, Until until = Until::reusable) noexcept;
  /// Puts what the tensor holds when the work that is on the stream is done; returns at once. Work
  /// that is put on the stream later may write the tensor only behind Request::wait_on. The stream
  /// is of the tensor's GPU, or of any for a tensor in host memory. More errors: bad_argument (no
  /// such stream, one of another GPU), and those of an earlier wait_on. The first such call here
  /// pins memory, and waits for that until no stream of this rank waits, for WEFT_TIMEOUT at most
  /// (timeout): make it before streams wait for other ranks. So may a put of a tensor on a GPU into
  /// a dynamic slot. Stream() is no stream: as the first. If the stream captures a graph, which
  /// keeps the tensor, each replay puts once. A put of a replay that fails is told by the next put
  /// here, or wait_on. Until then graphs put nothing more, and their puts that have not begun are
  /// cancelled. More errors in captures: bad_argument (a dynamic slot, host memory that no GPU can
  /// copy from, CUDA_LAUNCH_BLOCKING, a simulated job).
  Request put(const Tensor& tensor, Stream stream, Until until = Until::reusable) noexcept;
  /// The same for several tensors, as the second. The stream is of the GPU that has tensors; those
  /// in host memory are read once it has come to the put. In a captured graph each replay gathers
  /// what they hold then.
  Request put(std::span<const Tensor> parts, Stream stream, Until until = Until::reusable) noexcept;

  /// As Slot::also_needs.
  void also_needs(std::span<const int> ranks, Needed needed = Needed::always);

  /// Number of queue pairs to the owner; 1 where the fabric has no such thing.
  int queue_pairs() const noexcept;
  /// Pins this slot's puts to queue pair `index`, unstriped, so they stay ordered with other slots
  /// pinned to it. Only before the first put: throws Error(bad_argument) later, and for an index
  /// out of range. By default weft chooses, and stripes large tensors over all queue pairs.
  void use_queue_pair(int index);

 private:
  friend class RemoteSignal;
  friend class World;
  explicit RemoteSlot(std::shared_ptr<detail::PutWriter> state) noexcept;
  std::shared_ptr<detail::PutWriter> state_;
};

}  // namespace weft
