// Collectives: operations that all ranks of a group perform together, each on its own tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/device.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {

class Group;
class World;

/// How elements are combined.
///
/// - `sum`, `prod`: integers wrap around; floats overflow to infinity.
/// - `min`, `max` of floats: IEEE 754-2019 minimum and maximum. The result is NaN if any rank has
///   NaN, and -0 is below 0.
/// - `avg`: the mean, which does not overflow. Integers: the exact sum, divided and rounded towards
///   zero. Floats: the sum divided by the number of ranks, even where that sum itself would
///   overflow; elements smaller than 1.2e-38 (f64: 2.3e-308) times the number of ranks may lose
///   their last bits.
/// - `bit_and`, `bit_or`, `bit_xor`: integers and booleans.
/// - Booleans (any byte but 0 is true): `prod`, `min` and `bit_and` are "and"; `max` and `bit_or`
///   are "or"; `bit_xor` is true if an odd number of ranks has true; `sum` and `avg` are
///   Code::bad_argument.
enum class Reduction : std::uint8_t { sum, prod, min, max, avg, bit_and, bit_or, bit_xor };

/// Computes into[i] = into[i] combined with from[i] for `count` elements of type `dtype`. The
/// function must be associative. It need not be commutative: `into` always comes from lower ranks
/// of the group than `from`. weft calls it on any thread of this rank that waits in weft or tests a
/// plan; it must not throw and must not call weft.
using ReduceFunction =
    std::function<void(std::byte* into, const std::byte* from, std::int64_t count, DType dtype)>;

/// The combination of a reducing collective: a Reduction or a user function.
class WEFT_API ReduceOp {
 public:
  ReduceOp(Reduction reduction) noexcept : reduction_(reduction) {}
  /// Throws Error(bad_argument) if `function` is empty.
  ReduceOp(ReduceFunction function);

  /// Meaningful only if function() is null.
  Reduction reduction() const noexcept { return reduction_; }
  /// The user function; null for a Reduction.
  const ReduceFunction* function() const noexcept { return function_.get(); }

 private:
  Reduction reduction_ = Reduction::sum;
  std::shared_ptr<const ReduceFunction> function_;
};

/// The operation of a Call. weft/collective.hpp has a function for each that makes the Call.
enum class CollectiveKind : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  gather,
  scatter,
  all_to_all,
  scan
};

/// How the ranks of several hosts carry out a collective. Ranks of one host work on each other's
/// tensors in place, and of these values only `two_level` changes how they do it.
enum class Algorithm : std::uint8_t {
  /// The one that WEFT_COLL names, else the fastest by the costs of links and processors
  /// (weft-tune).
  automatic,
  /// Every rank exchanges with every other; each combines its own share. Serves every call.
  direct,
  /// Every rank gets all tensors and combines them itself: reduce, all_reduce, scan.
  allgather_then_reduce,
  ring,      ///< from neighbour to neighbour: all_reduce, reduce_scatter, all_gather, broadcast
  halving,   ///< recursive halving, then doubling: all_reduce of 2, 4, 8, ... ranks
  doubling,  ///< recursive doubling: all_reduce, broadcast, barrier
  /// Within the hosts, between them, within the hosts: all_reduce, broadcast. If all ranks are on
  /// one host, the NUMA nodes take the hosts' place, provided that each node has the same number of
  /// ranks: all_reduce, reduce, reduce_scatter, broadcast, all_gather; otherwise as `direct`.
  two_level
};

/// The description of one collective operation on this rank's tensors, made by the functions below.
/// A value, which does nothing by itself; it holds handles of its tensors.
///
/// Tensors must be dense and have memory (Tensor), except those that a rank's part of the call does
/// not use. Shapes are ignored: the elements are taken in order, and all tensors of a
/// call have one dtype. `in` and `out` may be the same memory (all_reduce, reduce, scan,
/// all_to_all), `in` may be this rank's part of `out` (all_gather, gather), and `out` may be this
/// rank's part of `in` (reduce_scatter, scatter). Any other overlap is Code::bad_argument.
struct Call {
  CollectiveKind kind = CollectiveKind::barrier;
  Tensor in{};
  Tensor out{};
  ReduceOp op = Reduction::sum;
  int root = -1;  ///< a rank of the group, from 0 (Collectives::rank()), not of the world
  /// Elements of each rank's part, by place in the group; empty: all parts are equal. all_to_all:
  /// elements that this rank sends to each rank.
  std::vector<std::int64_t> counts{};
  std::vector<std::int64_t> out_counts{};  ///< all_to_all: elements received from each rank
  /// Must be the same on every rank. An algorithm that can't serve the call in its group is
  /// Code::bad_argument.
  Algorithm algorithm = Algorithm::automatic;
  /// True: elements are combined in one binary tree over the group's ranks. False: between hosts,
  /// floats may be combined in the order that is fastest (for example a ring's). The result then
  /// has the same bits on every rank and in every run with the same placement, but may differ under
  /// another placement. Integers give the same result either way.
  bool deterministic = true;
};

// A `root` is a rank of the group, from 0: Collectives::rank() on that rank, not World::rank().
// Group::place_of() gives it for a rank of the world.

/// Ends on a rank when every rank of the group has entered.
WEFT_API Call barrier();
/// Copies the root's `tensor` into every other rank's `tensor`.
WEFT_API Call broadcast(const Tensor& tensor, int root);
/// Combines every rank's `in` into `out` of the root. On other ranks `out` may be empty.
WEFT_API Call reduce(const Tensor& in, const Tensor& out, const ReduceOp& op, int root);
/// Combines every rank's `in` into every rank's `out`.
WEFT_API Call all_reduce(const Tensor& in, const Tensor& out, const ReduceOp& op);
/// The same in place.
WEFT_API Call all_reduce(const Tensor& tensor, const ReduceOp& op);
/// Combines every rank's `in` and gives each rank its own part of the result: `out` of the n-th
/// rank of the group gets the n-th part. `counts` has the elements of each part and is the same on
/// all ranks; empty: `in` has size() times the elements of `out`.
WEFT_API Call reduce_scatter(const Tensor& in, const Tensor& out, const ReduceOp& op,
                             std::vector<std::int64_t> counts = {});
/// Concatenates every rank's `in`, in the group's order, into every rank's `out`. `counts` has the
/// elements of each rank's `in` and is the same on all ranks; empty: all are equal.
WEFT_API Call all_gather(const Tensor& in, const Tensor& out,
                         std::vector<std::int64_t> counts = {});
/// As all_gather, but into `out` of the root alone.
WEFT_API Call gather(const Tensor& in, const Tensor& out, int root,
                     std::vector<std::int64_t> counts = {});
/// Splits the root's `in` into parts and copies the n-th into `out` of the n-th rank. Other ranks'
/// `in` is ignored. `counts` has the elements of each part and is the same on all ranks; empty: all
/// are equal.
WEFT_API Call scatter(const Tensor& in, const Tensor& out, int root,
                      std::vector<std::int64_t> counts = {});
/// Sends the n-th part of `in` to the n-th rank, and receives that rank's part for this one as the
/// n-th part of `out`. The counts are this rank's own: `in_counts` has the elements that it sends
/// to each rank, `out_counts` the elements that it receives from each. Give both or neither; empty:
/// all parts are equal.
WEFT_API Call all_to_all(const Tensor& in, const Tensor& out,
                         std::vector<std::int64_t> in_counts = {},
                         std::vector<std::int64_t> out_counts = {});
/// Inclusive scan: `out` of each rank is `in` of this rank and of all ranks before it, combined.
WEFT_API Call scan(const Tensor& in, const Tensor& out, const ReduceOp& op);

namespace detail {
class CollectiveGroup;
struct PlannedCall;
}  // namespace detail

/// A collective bound to its tensors, to be run any number of times without allocation,
/// registration or control messages. Holds handles of its tensors. Tensors on a GPU, of all ranks
/// of one host: the GPUs carry out reductions (of 2 to 8 ranks), all_gather and broadcast on each
/// other's memory, where they reach it and weft was built with kernels. Likewise between hosts,
/// where NICs reach the GPUs; each start then tells the other ranks by a control message. Others go
/// through host memory that the plan keeps: this rank's input is copied at each start, its output
/// when all else is done, which Collectives::staged_bytes() counts. Each start on a GPU allocates a
/// few words. A plan that outlives the Collectives that made it is Code::closed. Thread-safety: as
/// these Collectives.
class [[nodiscard]] WEFT_API Plan {
 public:
  Plan() noexcept;
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  /// Destroying a plan that is under way ends its group, since this rank's part will never come:
  /// every rank's operations of the group end with Code::cancelled.
  ~Plan();

  /// Begins the operation. Its tensors are lent to weft until the operation has ended: don't write
  /// them, nor read results. Up to 4 plans of a group may be under way; they run in the order of
  /// their start, which must be the same on every rank. End what writes an input on a GPU before.
  /// Errors: bad_argument (this plan is under way already, or 4 are), exhausted (calls of 63 other
  /// groups are under way), system (the GPU does not begin to copy the input; nothing has begun),
  /// forked, and those of wait().
  Status start() noexcept;
  /// True if the operation has ended, successfully or not. Makes progress on this operation and on
  /// everything else that the rank has begun, except that it takes no incoming messages (Messages).
  /// Never blocks.
  bool test() noexcept;
  /// Waits for the operation to end. A timeout leaves the operation alive and names the ranks that
  /// have not entered, or, if this rank has heard from all that it waits for, the ranks whose parts
  /// are late. Between hosts a rank that has not entered is one that did not answer when it was
  /// asked, at the latest 50 ms, or an eighth of the deadline, before the end; of a deadline that
  /// has passed already, the text names the ranks that this one waits for. Other errors end the
  /// whole group: peer_failed, peer_left, mismatch (ranks called different operations; the text has
  /// both calls), cancelled, system (a GPU fails while it copies this rank's input). If the error's
  /// text says that tensors stay lent, call Collectives::settle() before touching them. Where the
  /// GPU fails while it copies the output, the call alone ends, with system. Also bad_argument (not
  /// started), forked.
  Status wait(Deadline deadline = {}) noexcept;
  /// start(), then wait().
  Status run(Deadline deadline = {}) noexcept;

  /// Puts one run of the operation on `stream`: it begins behind what is on the stream, and what is
  /// put there later sees the result. The stream waits, and the call returns at once. While the
  /// stream captures a graph, the run becomes a part of the graph, and takes place at each of its
  /// launches. All ranks put runs of their plans on streams in the same order; runs of one plan go
  /// on one stream, or on several of which each waits for the one before. wait() and test() do not
  /// tell of such runs: wait for the stream, before the plan, the group or the world goes.
  ///
  /// The first call of a plan is collective, and waits: the ranks agree whether their GPUs carry
  /// out the operation behind streams, and make all that this needs. It first waits until no stream
  /// of this rank waits for another call. Where the GPUs don't carry it out (Plan), each call waits
  /// for the stream on the thread and then runs the operation, and graphs are refused.
  ///
  /// `deadline`: of the first call; and its span, counted anew from each time that this rank's
  /// stream comes to the plan, is how long runs may take from this call on. If a rank is late,
  /// dies, leaves or closes the group, the group ends on all ranks, streams wait for no rank any
  /// more, and results are undefined: outcome() says so to the GPU, and the next call returns why.
  /// Graphs may be launched all the same, also when the plan, the group and the world are gone:
  /// then a run touches no tensor. The graph keeps this rank's control memory, the chunks of other
  /// ranks' that hold words, which stay pinned (2 to 16 MiB each), and the GPU's context. Once it
  /// is destroyed, the process lets go of them as it prepares another plan, or joins or leaves a
  /// world.
  ///
  /// Errors: those of start() and wait(); bad_argument (no such stream, one of another GPU; one
  /// that captures a graph, where the GPUs don't carry out the operation). Stream() is no stream:
  /// as run().
  Status start(Stream stream, Deadline deadline = {}) noexcept;
  /// A word in host memory that all of the process's GPUs reach: 0 while the results of runs behind
  /// streams are right, else the number of the Code with which they have ended. Behind a run on its
  /// stream it tells of that run. Valid as long as the plan, or a graph with a run of it. Null: no
  /// stream runs the plan. A thread reads it atomically, since others may write it.
  const std::uint32_t* outcome() const noexcept;

 private:
  friend class Collectives;
  friend class World;
  Plan(std::shared_ptr<detail::CollectiveGroup> group,
       std::shared_ptr<detail::PlannedCall> call) noexcept;
  std::shared_ptr<detail::CollectiveGroup> group_;
  std::shared_ptr<detail::PlannedCall> call_;
};

/// A group of ranks and its collectives. All ranks of the group call the same operations in the
/// same order.
///
/// Results have the same bits on every rank and in every run, and, while Call::deterministic is
/// true, on every fabric: elements are combined in one binary tree over the ranks in the group's
/// order (scan: one rank after another). 16-bit floats are combined in f32 and rounded once.
///
/// Ranks of one host read and write each other's tensors in place if these lie in the world's
/// memory (World::allocate). Other tensors are copied once more, which bytes_copied() counts. Any
/// thread that waits in weft or tests a plan makes progress on all operations under way, so ranks
/// may wait for plans of several groups in any order.
///
/// Thread-safety: one thread at a time per group; different groups may be used by different
/// threads.
class WEFT_API Collectives {
 public:
  Collectives() noexcept;
  Collectives(Collectives&&) noexcept;
  Collectives& operator=(Collectives&&) noexcept;
  ~Collectives();

  /// Opens a group of all ranks of the world. Every rank must call it; groups of the same ranks are
  /// told apart by the order of the calls, which must be the same on each. Throws Error: timeout
  /// (names a rank that has not called it), closed (the call of another rank has failed),
  /// peer_failed, peer_left, exhausted, mismatch (a rank of another version), forked. After an
  /// error the group may be opened again: a rank that comes late to one that others have given up
  /// opens the next one with them.
  static Collectives open(World& world, Deadline deadline = {});
  /// Opens a group of `ranks` (of the world), all of which must call it with the same list. Also
  /// throws Error(bad_argument): the job has no such rank, a rank is listed twice, or this rank is
  /// not listed.
  static Collectives open(World& world, std::span<const int> ranks, Deadline deadline = {});
  /// Opens a group of the members of `group`: after a death, the one that Group::shrink() gave.
  static Collectives open(World& world, const Group& group, Deadline deadline = {});

  /// This rank's place in the group, from 0; -1 for an empty handle.
  int rank() const noexcept;
  /// The number of ranks; 0 for a default-constructed handle.
  int size() const noexcept;
  /// The group's ranks of the world, by place. Valid as long as this object.
  std::span<const int> ranks() const noexcept;

  /// Binds `call` to its tensors. Throws Error: bad_argument (the call is impossible in this
  /// group), exhausted.
  Plan plan(const Call& call);
  /// plan(), then Plan::start(). Throws Error with the errors of both.
  Plan start(const Call& call);
  /// Runs `call` once. Errors: those of plan() and Plan::wait(). Tensors on a GPU are treated as by
  /// a plan. If a copy between this rank's GPU and host memory fails or is late, the call ends here
  /// with system or timeout. A timeout leaves no handle to resume, so it ends the group.
  /// Up to 50 ms of the deadline (at most an eighth) are reserved for the other ranks to leave this
  /// rank's tensors.
  Status run(const Call& call, Deadline deadline = {}) noexcept;

  /// Waits until no other rank can touch the tensors of this group's ended calls. Needed only after
  /// an error whose text says that tensors stay lent: a rank that is stopped inside a tensor of
  /// this host may write the rest of its piece (at most 256 KiB) when it continues. Until settle()
  /// returns ok such tensors must be neither written nor read. The group keeps their memory
  /// meanwhile (ArenaReport::quarantined_bytes), even after its handle is destroyed. Memory outside
  /// the world (Tensor::wrap) is never lent this way: other ranks reach a copy. Errors: timeout
  /// (names the rank; that rank's death ends the loan too), peer_failed (a rank is gone whose GPU
  /// may go on writing tensors on this rank's GPUs, as one that was killed under MPS: use others),
  /// forked.
  Status settle(Deadline deadline = {}) noexcept;

  /// Bytes copied in user space because tensors were not in the world's memory.
  std::uint64_t bytes_copied() const noexcept;
  /// Bytes copied from and to a GPU for calls on tensors there.
  std::uint64_t staged_bytes() const noexcept;

 private:
  explicit Collectives(std::shared_ptr<detail::CollectiveGroup> group) noexcept;
  std::shared_ptr<detail::CollectiveGroup> group_;
};

}  // namespace weft
