// World: a process as a rank of a job.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/group.hpp"
#include "weft/published_slot.hpp"
#include "weft/report.hpp"
#include "weft/slot.hpp"
#include "weft/tensor.hpp"

namespace weft {

namespace detail {
class WorldState;
struct AwaitedEnds;
}  // namespace detail

class MessageRequest;
class Plan;

/// A job without a launcher, for World::join(options). Fields that are left out are taken from the
/// environment.
struct JoinOptions {
  std::optional<int> rank{};  ///< as WEFT_RANK: from 0
  std::optional<int> size{};  ///< as WEFT_SIZE
  std::string address{};      ///< as WEFT_ADDR: where rank 0 accepts the others
  /// The token itself, 32 to 4096 bytes, in place of a file (WEFT_TOKEN_FILE).
  std::string token{};
};

/// Handles of several kinds that one thread waits for together (World::wait_any). The caller keeps
/// lists and handles until the call returns; no other thread may use the handles meanwhile.
struct WaitSet {
  std::span<Slot* const> slots{};
  std::span<Request* const> requests{};
  std::span<PublishedReader* const> readers{};
  std::span<Plan* const> plans{};               ///< that were started, of one group or several
  std::span<MessageRequest* const> messages{};  ///< what isend() and irecv() returned
};

/// This process (or, in tests, this thread) as one of size() ranks. Several worlds may live in one
/// process.
///
/// Any order of destruction is safe. When a world goes or leaves (leave()), the slots, their remote
/// ends and all other handles made from it are orphans: their calls end with Code::closed or return
/// "nothing ready", and their destruction is local. Tensors and Arrivals keep their memory. A
/// handle that was default-constructed or moved from is empty. Calls of an empty handle that return
/// a Status or a Result, and those that may throw, fail with Code::bad_argument and the handle's
/// type; all others return 0, false, -1 for a rank, or something empty, but test() is true, as it
/// is for an orphan: nothing is under way. After leave(), what needs this rank's memory alone
/// (allocate(), adopt(), copy(), report()) goes on until the world goes.
///
/// In a fork of the process, every call of the world and of objects made from it fails with
/// Code::forked or returns "nothing ready", and destruction does nothing. Thread-safety: every
/// member may be called concurrently, except leave() and destruction: no other thread may be inside
/// a call of the world, or of an object made from it, whose wait would go on to its own deadline.
class WEFT_API World {
 public:
  /// Joins the job: by the launcher's PMIx (mpirun, srun --mpi=pmix), by WEFT_ADDR without a
  /// launcher, or as a world of one rank if neither is there. Throws Error: bad_config, bootstrap,
  /// timeout (names a rank that has not arrived within WEFT_INIT_TIMEOUT), unreachable, exhausted,
  /// system, forked.
  static World join();
  /// Joins the job that `options` describe, whatever launcher has started this process. With no
  /// field set: as join(). Several ranks of a job may be threads of one process. Throws Error: as
  /// join().
  static World join(const JoinOptions& options);

  World() noexcept;
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  /// Leaves without waiting for other ranks to leave. Memory of this rank that a NIC or a
  /// connection still reads is kept until then: usually for microseconds, at most 21 s if the peer
  /// can't be reached.
  ~World();

  /// This rank, from 0.
  int rank() const noexcept;
  /// Number of ranks of the job.
  int size() const noexcept;
  /// The name of the host that rank `rank` runs on. Throws Error(bad_argument).
  std::string host(int rank) const;
  /// Number of ranks on this rank's host, including this one.
  int local_size() const noexcept;

  /// A dense tensor in this rank's data arena, 64-byte aligned, not initialised; the memory lives
  /// as long as its last tensor. Throws Error(exhausted) if the arena can't grow (the text has the
  /// bytes requested, held and allowed); the world stays usable.
  Tensor allocate(DType dtype, const Shape& shape);
  /// The same in `memory`: host memory, this rank's GPU (Memory::gpu()) or another that the process
  /// sees. The memory of a GPU is 256-byte aligned, and the processor can't reach it. The first
  /// tensor on a GPU loads the CUDA driver and retains the GPU's primary context; the caller's
  /// current context stays as it was. Throws Error: exhausted (the text has the bytes requested,
  /// held, and free on the GPU), bad_argument (there is no such GPU), bad_config (WEFT_GPU), system
  /// (there is no driver, or it fails).
  Tensor allocate(DType dtype, const Shape& shape, Memory memory);

  /// Copies the elements of `from` to `to`, dense tensors of one dtype and shape, each in host
  /// memory or on a GPU, both on the same one if both are. Without a stream the call returns when
  /// they are copied. With one it returns once the copy is on the stream, behind what is there
  /// (and, as CUDA does with host memory that is not pinned, perhaps only when it is done); both
  /// tensors' memory must stay until then. If the stream captures a graph, the copy becomes a part
  /// of it, and both tensors must stay as long as the graph. Without a stream, host memory that is
  /// not pinned goes through pinned memory of weft's own, in chunks; where that is not there, and
  /// a stream of the rank waits for others, the driver copies, and its time may be longer than the
  /// deadline. Memory that was wrapped is checked with the
  /// driver. Throws Error: mismatch (dtype or shape), bad_argument (no memory; strides; memory that
  /// is not where the tensor says; two GPUs; a stream of another GPU), timeout (without a stream:
  /// the copy is still under way, and weft keeps the tensors' handles until it has ended; one in
  /// chunks ends there, and `to` is partly written), system, exhausted.
  void copy(const Tensor& from, const Tensor& to, Stream stream = {}, Deadline deadline = {});

  /// A dense tensor of the user's own memory, of any origin and alignment. As a source the tensor
  /// is put without staging. As a slot's memory (expose), peers put directly into it: within a host
  /// by the kernel's process-to-process copy where permitted, otherwise staged, counted and logged.
  /// weft holds `memory` until the last tensor made from it is gone and no peer can touch it, so
  /// free the memory in its deleter. The CUDA driver says whether the memory is of a GPU: then the
  /// tensor lies there (Tensor::memory), and goes through host memory as all others there; it is no
  /// slot's memory. Throws Error: bad_argument (also: the tensor ends behind its allocation on the
  /// GPU), exhausted.
  Tensor adopt(std::shared_ptr<void> memory, DType dtype, const Shape& shape);
  /// The same for memory with another owner, which must not free it before weft has called
  /// `unused`: once, on any thread, even after the world's end; never if adopt() throws. `unused`
  /// and deleters must not call weft, except to destroy tensors.
  Tensor adopt(void* memory, DType dtype, const Shape& shape, std::function<void()> unused);

  /// This rank's data arena as a memory resource for containers: peers reach their memory, wrapped
  /// as a tensor, without staging. Valid as long as the world; of an empty world one that has no
  /// memory. Alignments up to 64 bytes.
  /// Allocation throws std::bad_alloc.
  std::pmr::memory_resource& memory() noexcept;

  /// Exposes a slot that one rank (another, or this one) puts into. Throws Error: duplicate_name,
  /// bad_argument, exhausted; for SlotSpec::memory on a GPU also system.
  Slot expose(const SlotSpec& spec);
  /// The same with the slot's buffers in `memory`, one after the other: a dense tensor from adopt()
  /// or allocate(), of the slot's dtype and `spec.depth` times its elements. Only for slots with
  /// Placement::fixed. The slot holds the tensor's handle.
  Slot expose(const SlotSpec& spec, const Tensor& memory);
  /// Exposes a slot that this rank publishes and any rank reads. Throws Error: as expose().
  PublishedSlot expose_published(const PublishedSpec& spec);

  /// Attaches to a slot of rank `owner` to put into it, waiting for it to be exposed; `expected` is
  /// compared with the owner's spec. Involves these two ranks only. Throws Error: mismatch (has
  /// both sides' values; the owner is told too; also for a slot that its owner publishes),
  /// writer_taken (names the rank that holds it), timeout (names slot and owner), peer_failed,
  /// peer_left, bad_argument.
  RemoteSlot attach(int owner, const SlotSpec& expected, Deadline deadline = {});
  /// The same by name alone, with the spec that the owner declared. `name` is text: a list in
  /// braces, attach(0, {.name = "x", .shape = {4}}), is a spec.
  template <std::convertible_to<std::string_view> Name>
  RemoteSlot attach(int owner, const Name& name, Deadline deadline = {}) {
    return attach_by_name(owner, name, deadline);
  }
  /// Attaches to a slot that `owner` publishes, to read it. Throws Error: as attach(), except
  /// writer_taken. A slot that a peer puts into is a mismatch.
  PublishedReader attach_published(int owner, const PublishedSpec& expected,
                                   Deadline deadline = {});
  /// The same, taking dtype, shape and the rest as the owner declared them.
  template <std::convertible_to<std::string_view> Name>
  PublishedReader attach_published(int owner, const Name& name, Deadline deadline = {}) {
    return attach_published_by_name(owner, name, deadline);
  }

  /// Waits until one of `slots` has an arrival or can't get one any more (its wait() then says
  /// why), and returns its index. If several are ready, successive calls return each in turn. The
  /// timeout's text names the slots with their peers (32 at most, and the number of further ones),
  /// and says what each of the first 4 lacks. The same holds for the three functions below. They
  /// allocate for an error's text alone.
  Result<std::size_t> wait_any(std::span<Slot* const> slots, Deadline deadline = {}) noexcept;
  /// Waits until one of `readers` has a version not seen yet, and returns its index.
  Result<std::size_t> wait_any(std::span<PublishedReader* const> readers,
                               Deadline deadline = {}) noexcept;
  /// Waits until one of `requests` has ended, and returns its index.
  Result<std::size_t> wait_any(std::span<Request* const> requests, Deadline deadline = {}) noexcept;
  /// Waits until one of all handles of `set` is ready in the sense of the three functions above, or
  /// a plan or message has ended, and returns its index: slots have the first ones, then requests,
  /// readers, plans, messages. Errors: timeout, forked, closed, bad_argument (of all four
  /// functions: the set is empty, or has a null pointer or an empty slot, reader or plan). Ranks
  /// that started different calls in a group learn of it from Plan::wait() alone.
  Result<std::size_t> wait_any(const WaitSet& set, Deadline deadline = {}) noexcept;

  /// A file descriptor, owned by the world, for the user's own poll loop. It becomes readable after
  /// any event of this rank: an arrival, a credit, a peer's death. Usage: poll, clear_event(), then
  /// test every slot and request of interest. Throws Error: system, forked.
  int event_fd();
  /// Makes event_fd() unreadable until the next event.
  void clear_event() noexcept;

  /// Declares `rank` dead, for example a stopped process that does not answer but is not detected
  /// as dead. Operations that need it fail with peer_failed, whose text has `why`. The rank is
  /// fenced (killed if it is reached by shared memory), and memory that it could still write is not
  /// reused before that. Returns at once. Throws Error(bad_argument).
  void declare_dead(int rank, const std::string& why);

  /// ok() while all of `ranks` are alive; otherwise the status of the first that is not:
  /// peer_failed, peer_left and the like. Errors: bad_argument, forked, closed.
  Status alive(std::span<const int> ranks) const noexcept;

  /// The group of all ranks of the job. Deaths do not change it: Group::shrink() makes the
  /// survivors' group.
  Group group() const noexcept;

  /// The paths, slots and arenas of this rank as of now. Throws Error(forked).
  Report report() const;

  /// Waits until every peer has left too or is dead, so that none still reads this rank's memory,
  /// then leaves. A peer that connects on first use (WEFT_MESH_EAGER) and never did is not waited
  /// for: it can't read this memory, and if it attaches later it fails with peer_left or
  /// peer_failed. Errors: timeout (names a rank that has not left; this world has left
  /// nevertheless), forked.
  Status leave(Deadline deadline = {}) noexcept;

 private:
  friend struct WorldAccess;
  RemoteSlot attach_by_name(int owner, std::string_view name, Deadline deadline);
  PublishedReader attach_published_by_name(int owner, std::string_view name, Deadline deadline);
  Result<std::size_t> wait_any(const detail::AwaitedEnds& ends, Deadline deadline) noexcept;
  Status check(const WaitSet& set) const noexcept;
  explicit World(std::shared_ptr<detail::WorldState> state) noexcept;
  std::shared_ptr<detail::WorldState> state_;
};

}  // namespace weft
