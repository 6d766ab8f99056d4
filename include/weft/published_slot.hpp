// Slots that their owner publishes: it fills a buffer and makes it visible as the newest version;
// any number of ranks view or get the newest.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/device.hpp"
#include "weft/error.hpp"
#include "weft/slot.hpp"
#include "weft/tensor.hpp"

namespace weft {

/// A published slot's contract. Owner and readers state it; attach compares the two.
struct PublishedSpec {
  std::string name;  ///< unique among all slots of its owner; at most 200 bytes
  DType dtype = DType::f32;
  Shape shape;
  std::uint32_t depth = 1;  ///< versions that may be viewed or filled at once; at most 4096
  /// unsafe_synchronous: the owner may fill a buffer that a reader still views. WEFT_CHECK=flow
  /// reports it of readers that share memory with the owner; others view copies.
  Flow flow = Flow::credits;
  /// Where the owner fills its versions; not compared. On a GPU publish() copies them to host
  /// memory, which readers view and get. The readers' ends say nothing of it.
  Memory memory = {};
};

/// Elements `first` to `first + count` of a slot, and where a get puts them. `to` has room for
/// `count` elements.
struct SlotRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

namespace detail {
class Publisher;
class VersionReader;
}  // namespace detail

/// The owner's end of a published slot. One thread at a time. Destruction returns at once: the
/// readers are told, and the memory stays in quarantine until each has agreed or is dead.
class WEFT_API PublishedSlot {
 public:
  PublishedSlot() noexcept;
  PublishedSlot(PublishedSlot&&) noexcept;
  PublishedSlot& operator=(PublishedSlot&&) noexcept;
  ~PublishedSlot();

  const PublishedSpec& spec() const noexcept;

  /// The buffer to fill for the next version. With Flow::credits no reader views it, and it is not
  /// the newest version's unless the slot has one buffer only. Waits while every buffer is viewed;
  /// the timeout names the reader that has viewed for longest. A dead reader views nothing. On a
  /// GPU (PublishedSpec::memory) it is always the same tensor, there.
  Result<Tensor> next(Deadline deadline = {}) noexcept;
  /// Makes the buffer that next() gave visible to the readers. bad_argument without one. From host
  /// memory it returns at once. From a GPU it copies the version to host memory first: once per
  /// version, counted as staged. End what writes the buffer before. Then also timeout (the copy
  /// goes on, and another publish() waits for it) and system; nothing is published, and the buffer
  /// is still the one to fill.
  Status publish(Deadline deadline = {}) noexcept;
  /// Makes visible what the buffer holds when the work that is on the stream is done; returns at
  /// once. On a GPU the version is copied then, and work that is put on the stream later begins
  /// behind the copy, so it may write the tensor. Work of other streams must be ordered behind this
  /// one, and a thread may write the tensor once the version is visible. In host memory the buffer
  /// is the readers' from then on. next() gives the next version's tensor meanwhile, as far as
  /// there are buffers; versions become visible in the order of the calls, also those that
  /// publish() makes so without a stream, which waits for all before. A version whose stream has
  /// not come by at the deadline, or whose copy fails, is never visible, and the next call of this
  /// end returns why; it keeps its buffer until its stream has come by, and holds up no others. The
  /// first call with a stream pins memory, and waits for that until no stream of this rank waits
  /// (else timeout): make it before streams wait for other ranks. A slot that is closed before
  /// publishes no more. Errors of the call itself: those of publish(), bad_argument (no such
  /// stream, one of another GPU). Where the driver pins no memory the call waits for the stream.
  /// Stream() is no stream: as the first. While the stream captures a graph, the publication
  /// becomes a part of it, and the buffer of next() is given back: each replay publishes what the
  /// slot's tensor on the GPU holds when the stream comes to it, and what is behind it on the
  /// stream begins once the version was copied. `deadline` is the time that a replay has from then
  /// on, for a buffer and the copy. At depth 1 or 2, or in a synchronous slot, a buffer that next()
  /// has given keeps replays waiting until it is published. Calls with a stream outside of captures
  /// may be behind replays: from the first capture on they wait in the thread for the stream,
  /// unless the slot has three buffers more than versions that wait for streams, this one among
  /// them. After a timeout of that wait next() gives the tensor again as it is. If a replay fails,
  /// its stream goes on, the version is never visible, and the next call of this end returns why.
  /// Replays after this end has gone publish nothing.
  /// bad_argument in a capture: versions that are filled in host memory or have no elements, a
  /// driver that pins no memory, CUDA_LAUNCH_BLOCKING, a simulated job.
  Status publish(Stream stream, Deadline deadline = {}) noexcept;
  /// Number of ranks that are attached now.
  int readers() const noexcept;

  /// next() also ends when one of `ranks` is dead or has left.
  void also_needs(std::span<const int> ranks, Needed needed = Needed::always);

 private:
  friend class World;
  explicit PublishedSlot(std::shared_ptr<detail::Publisher> state) noexcept;
  std::shared_ptr<detail::Publisher> state_;
};

/// A reader's end of a published slot. One thread at a time. Destruction detaches.
class WEFT_API PublishedReader {
 public:
  PublishedReader() noexcept;
  PublishedReader(PublishedReader&&) noexcept;
  PublishedReader& operator=(PublishedReader&&) noexcept;
  ~PublishedReader();

  const PublishedSpec& spec() const noexcept;
  int owner() const noexcept;

  /// Waits for a version newer than the last one seen here and views the newest where it lies.
  /// Where the owner's memory can't be loaded from, the version is read first. After a timeout the
  /// read goes on, and the next view() waits for it, though newer versions may be out by then.
  Result<Arrival> view(Deadline deadline = {}) noexcept;
  /// The same for a caller that needs the given runs only, which must ascend. Where the owner's
  /// memory can't be loaded from, the rest is not read, and the arrival's tensor has the runs'
  /// elements, flat, one run behind the other; elsewhere it is the whole slot. No runs: nothing is
  /// read, and the version counts as seen. bad_argument if a run leaves the slot, begins before the
  /// end of the one before it, or has a target.
  Result<Arrival> view(std::span<const SlotRun> runs, Deadline deadline = {}) noexcept;
  /// Copies the same version into `into`, whose dtype and shape must be the slot's (else mismatch)
  /// and which must have memory (else bad_argument). After a timeout nothing was got, `into` must
  /// not be read, and further calls for the same elements go on with one read in weft's own memory:
  /// calls with short deadlines end too, however long the transfer takes. By RDMA a NIC may still
  /// write `into` after the first such timeout: the memory stays lent until the next view() or
  /// get() of this end, which waits for the NIC first, or until this end is destroyed, which fails
  /// the path if it must. The tensor's handle is held that long; memory of runs must stay valid
  /// that long. Into a dense tensor on a GPU a NIC reads where it reaches the GPU's memory, and a
  /// read that is late goes on for the next get() into the same tensor. Else the version comes by
  /// way of host memory, counted as staged (unreachable with WEFT_REQUIRE=gdr): system if the GPU's
  /// driver fails; after that, or after a timeout while the GPU copies, the version counts as not
  /// seen. Within a host a GPU copies from the owner's memory, which the first such get pins once
  /// no stream of this rank waits (else timeout). After a timeout while it copies, the version is
  /// held as by a view, until the next view() or get(), which goes on with the copy if it is for
  /// the same tensor.
  Status get(const Tensor& into, Deadline deadline = {}) noexcept;
  /// The same for the given runs of elements only, each with its own target: one operation.
  /// bad_argument if a run leaves the slot, or has elements and no target.
  Status get(std::span<const SlotRun> runs, Deadline deadline = {}) noexcept;
  /// The stream gets in place of the thread: returns at once. The first such get of this end, and
  /// the first into a tensor of another chunk, pin memory, and wait for that until no stream of
  /// this rank waits (else timeout): make them before streams wait for other ranks. The version is
  /// got once the stream has come to the get, so that work which was put on the stream before may
  /// use the tensor, and what is put on the stream later begins when the version is there. For
  /// tensors on a GPU; for one in host memory the thread waits. If no version comes, the stream
  /// goes on all the same, outcome() says so to the GPU, the next call of this end returns why, and
  /// the version counts as not seen; until a view() or get() has waited for that, or this end is
  /// destroyed, a NIC or a copy may still write the tensor. One get at a time: another one, and
  /// each call of the thread's that reads, waits for it first. Give one stream, or order those that
  /// you give. Errors of the call itself: those of get(), bad_argument (no such stream, one of
  /// another GPU). Stream() is no stream: as the first. While the stream captures a graph, the get
  /// becomes a part of it: each replay gets the newest version that was not seen here, once the
  /// stream has come to it, and waits for one. `deadline` is the time that it has from then on. If
  /// one fails, its stream goes on, outcome() of the captured get says so, and the next call of
  /// this end returns why; later replays go on. A call of the thread's that reads has its turn
  /// before replays that wait for theirs. After this end has gone, outcomes are `closed`.
  /// bad_argument in a capture: a tensor in host memory or without elements, a driver that pins no
  /// memory, CUDA_LAUNCH_BLOCKING, a simulated job.
  Status get(const Tensor& into, Stream stream, Deadline deadline = {}) noexcept;
  /// The word that tells, behind the stream's wait, how the latest get() with a stream has ended:
  /// 0, or the number of a Code. In host memory that all of the process's GPUs reach. For work that
  /// is put on the stream before the next such get, and as long as this end. After a get that is
  /// part of a captured graph it is the same word in all replays, valid as long as the graph and
  /// its executables. Null: the call itself has waited.
  const std::uint32_t* outcome() const noexcept;
  /// Whether view() would return at once.
  bool ready() const noexcept;
  /// The next view() or get() takes the newest version even if that version was seen here before.
  /// If the owner is filling its buffer again, the next view() or get() waits for a newer version.
  void see_again() noexcept;

  /// view() and get() also end when one of `ranks` is dead or has left.
  void also_needs(std::span<const int> ranks, Needed needed = Needed::always);

 private:
  friend class World;
  explicit PublishedReader(std::shared_ptr<detail::VersionReader> state) noexcept;
  std::shared_ptr<detail::VersionReader> state_;
};

}  // namespace weft
