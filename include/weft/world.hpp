// A process as a rank of a job.
#pragma once

#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>

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
}

/// This process (or, in tests, this thread) as one rank among `size()`. Several worlds may live in
/// one process. Slots, their remote ends and arrivals must go before their world; tensors may
/// outlive it. Thread-safety: every member may be called concurrently, except leave() and
/// destruction. In a fork of the process every call of it and of what came from it ends with
/// Code::forked, or says that nothing is ready; destruction does nothing.
class WEFT_API World {
 public:
  /// Joins the job that the launcher (mpirun, srun --mpi=pmix) started; with no launcher it is a
  /// world of one. Throws Error: bad_config, bootstrap, timeout (a rank that never arrives is named
  /// within WEFT_INIT_TIMEOUT), unreachable, exhausted, system.
  static World join();

  World() noexcept;
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  /// Leaves at once, without waiting for anybody.
  ~World();

  int rank() const noexcept;
  int size() const noexcept;
  /// The name of the host that a rank runs on.
  std::string host(int rank) const;
  /// Ranks on this rank's host, itself included.
  int local_size() const noexcept;

  /// A tensor in this rank's data arena, 64-byte aligned, not initialised. Throws Error(exhausted)
  /// when the arena cannot grow, with what was asked, held and allowed; the world stays usable.
  Tensor allocate(DType dtype, const Shape& shape);

  /// A tensor of the user's own memory, of any origin and alignment, dense. As a source it is put
  /// without staging; as the memory of a slot (expose) peers put straight into it: within a host by
  /// the kernel's copy from process to process where that is allowed, else staged, counted and
  /// logged. `memory` is kept until the last tensor made from it is gone and no peer can touch it:
  /// its deleter is the place to free the memory. Throws Error(bad_argument, exhausted).
  Tensor adopt(std::shared_ptr<void> memory, DType dtype, const Shape& shape);
  /// The same for memory that somebody else owns, who must not free it before `unused` is called
  /// (once, on any thread, also without a world; never if this throws). Neither it nor a deleter
  /// may call weft, except to destroy tensors.
  Tensor adopt(void* memory, DType dtype, const Shape& shape, std::function<void()> unused);

  /// This rank's data arena for containers: what they allocate, peers reach without staging (wrap
  /// it). Valid as long as the world; alignments up to 64. Throws std::bad_alloc.
  std::pmr::memory_resource& memory() noexcept;

  /// Exposes a slot that one rank (another, or this one) puts into. Throws Error: duplicate_name,
  /// bad_argument, exhausted.
  Slot expose(const SlotSpec& spec);
  /// The same with its buffers in `memory`, one behind the other: a dense tensor of the slot's
  /// dtype that adopt() or allocate() made, of depth times the slot's elements. For slots of fixed
  /// shape.
  Slot expose(const SlotSpec& spec, const Tensor& memory);
  /// Exposes a slot that this rank publishes and any rank reads. Throws Error: as expose().
  PublishedSlot expose_published(const PublishedSpec& spec);

  /// Attaches to a slot of `owner` to put into it, waiting for it to be exposed. `expected` is
  /// compared with what the owner exposes. Involves these two ranks only. Throws Error: mismatch
  /// (with both sides' values; the owner learns of it too), writer_taken (naming the holder),
  /// timeout (naming slot and owner), peer_failed, peer_left, bad_argument. A slot that its owner
  /// publishes is a mismatch.
  RemoteSlot attach(int owner, const SlotSpec& expected, Deadline deadline = {});
  /// The same, taking dtype, shape and the rest as the owner declared them.
  RemoteSlot attach(int owner, const std::string& name, Deadline deadline = {});
  /// Attaches to a slot that `owner` publishes, to read it. Throws Error: as attach(), except
  /// writer_taken. A slot that a peer puts into is a mismatch.
  PublishedReader attach_published(int owner, const PublishedSpec& expected,
                                   Deadline deadline = {});
  /// The same, taking dtype, shape and the rest as the owner declared them.
  PublishedReader attach_published(int owner, const std::string& name, Deadline deadline = {});

  /// The index of a slot that has an arrival, or can have none any more: its wait() then says why.
  /// Slots that are ready at once get their turns. A timeout names the first four slots with their
  /// peers, what each lacks and how many more there are. All three overloads do so.
  Result<std::size_t> wait_any(std::span<Slot* const> slots, Deadline deadline = {}) noexcept;
  /// The index of a reader that has a version not seen yet.
  Result<std::size_t> wait_any(std::span<PublishedReader* const> readers,
                               Deadline deadline = {}) noexcept;
  /// The index of a request that has ended.
  Result<std::size_t> wait_any(std::span<Request* const> requests, Deadline deadline = {}) noexcept;

  /// A descriptor that becomes readable after anything happened for this rank (an arrival, a
  /// credit, a peer's death), for the user's own poll loop. It stays the world's. Read pattern:
  /// poll, clear_event(), then test every slot and request of interest.
  int event_fd();
  void clear_event() noexcept;

  /// Gives a rank up that does not answer any more but is not seen to be dead: a stopped one, say.
  /// Operations that need it fail with peer_failed, which gives `why`; the rank is fenced (reached
  /// by shared memory: killed), and nothing that it could still write into is used again before it
  /// is. Returns at once. Throws Error(bad_argument).
  void declare_dead(int rank, const std::string& why);

  /// ok() while every one of `ranks` lives; otherwise what became of the first that does not.
  Status alive(std::span<const int> ranks) const noexcept;

  /// All ranks of the job, as they joined. The same until it is shrunk: Group::shrink().
  Group group() const noexcept;

  Report report() const;

  /// Waits until every peer has left too or is dead, so that none still reads this rank's memory,
  /// then leaves. Peers that are connected on first use (WEFT_MESH_EAGER) and never were are not
  /// waited for: none of them can read it, and one that attaches later fails with peer_left or
  /// peer_failed. Returns timeout with the late rank's name when they don't leave; the world has
  /// left then as well.
  Status leave(Deadline deadline = {}) noexcept;

 private:
  friend struct WorldAccess;
  explicit World(std::unique_ptr<detail::WorldState> state) noexcept;
  std::unique_ptr<detail::WorldState> state_;
};

}  // namespace weft
