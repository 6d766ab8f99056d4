// Collectives: what all ranks of a group do together with a tensor each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {

class Group;
class World;

/// How elements are combined.
///
/// - `sum`, `prod`: integers wrap around; floats overflow to infinity.
/// - `min`, `max` of floats: IEEE 754's minimum and maximum. The result is NaN where any rank has
///   NaN, whichever rank that is, and -0 is below 0.
/// - `avg`: the mean, which does not overflow. Of integers: of their exact sum, rounded towards
///   zero. Of floats: what the sum divided by the number of ranks gives, also where that sum would
///   overflow (elements below 1.2e-38, of f64 2.3e-308, times the number of ranks may lose their
///   last bits).
/// - `bit_and`, `bit_or`, `bit_xor`: for integers.
/// - Booleans, where any byte but 0 is true: `prod`, `min` and `bit_and` are "and", `max` and
///   `bit_or` are "or", `bit_xor` is "an odd number of ranks has true"; `sum` and `avg` are
///   Code::bad_argument.
enum class Reduction : std::uint8_t { sum, prod, min, max, avg, bit_and, bit_or, bit_xor };

/// into[i] = into[i] combined with from[i], for `count` elements. Must be associative; order of the
/// ranks is kept, so it need not be commutative. Called on a thread of the rank that waits, for
/// this operation or for something else; must not throw, and must not call weft.
using ReduceFunction =
    std::function<void(std::byte* into, const std::byte* from, std::int64_t count, DType dtype)>;

/// A Reduction, or a function of the user's.
class WEFT_API ReduceOp {
 public:
  ReduceOp(Reduction reduction) noexcept : reduction_(reduction) {}
  ReduceOp(ReduceFunction function);

  Reduction reduction() const noexcept { return reduction_; }
  /// Null unless it is the user's.
  const ReduceFunction* function() const noexcept { return function_.get(); }

 private:
  Reduction reduction_ = Reduction::sum;
  std::shared_ptr<const ReduceFunction> function_;
};

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

/// How ranks of several hosts carry out a collective. Ranks of one host work on each other's
/// tensors in place whichever is named.
enum class Algorithm : std::uint8_t {
  automatic,  ///< whichever should be quickest: by WEFT_COLL, or by what links and processors cost
  direct,     ///< everybody with everybody: each rank combines its share for all. Every call can
  allgather_then_reduce,  ///< whole tensors to all, and everybody combines for itself: reduce,
                          ///< all_reduce, scan
  ring,      ///< from neighbour to neighbour: all_reduce, reduce_scatter, all_gather, broadcast
  halving,   ///< halves with ever other ranks, then back: all_reduce of 2, 4, 8, ... ranks
  doubling,  ///< with ever other ranks: all_reduce, broadcast, barrier
  /// Within the hosts, between them, within the hosts: all_reduce, broadcast. Of ranks of one host:
  /// the same with its NUMA nodes, where they make rows of ranks alike: all_reduce, reduce,
  /// reduce_scatter, broadcast, all_gather; else direct.
  two_level
};

/// One collective operation on this rank's tensors, as the functions below describe it: a value,
/// which does nothing by itself. Tensors must be dense; shapes don't matter, only the number of
/// elements, which are taken in order. `in` and `out` may be the same memory (all_reduce, reduce,
/// scan), `in` may be this rank's own part of `out` (all_gather, gather) and the other way round
/// (reduce_scatter, scatter); all_to_all may have the same memory for both. Any other overlap is an
/// error.
struct Call {
  CollectiveKind kind = CollectiveKind::barrier;
  Tensor in{};
  Tensor out{};
  ReduceOp op = Reduction::sum;
  int root = -1;
  std::vector<std::int64_t> counts{};      ///< of every rank's part; empty: all alike
  std::vector<std::int64_t> out_counts{};  ///< all_to_all: what comes from every rank
  /// The same on every rank. One that can't serve the call in its group is an error.
  Algorithm algorithm = Algorithm::automatic;
  /// Combined as one binary tree over the group's ranks. Else between hosts floats may be combined
  /// in whichever order is quickest, a ring's, say: the same bits on every rank and in every run
  /// with this placement, but others with another. Whole numbers don't care.
  bool deterministic = true;
};

/// Nobody is through before everybody has come.
WEFT_API Call barrier();
/// The root's tensor into everybody's.
WEFT_API Call broadcast(const Tensor& tensor, int root);
/// Everybody's tensors combined, into `out` of the root; elsewhere it may be empty.
WEFT_API Call reduce(const Tensor& in, const Tensor& out, const ReduceOp& op, int root);
/// The same, into everybody's `out`.
WEFT_API Call all_reduce(const Tensor& in, const Tensor& out, const ReduceOp& op);
WEFT_API Call all_reduce(const Tensor& tensor, const ReduceOp& op);
/// The same, of which every rank gets its own part: the n-th of the group the n-th. With counts,
/// which all ranks give alike, parts may differ.
WEFT_API Call reduce_scatter(const Tensor& in, const Tensor& out, const ReduceOp& op,
                             std::vector<std::int64_t> counts = {});
/// Everybody's tensors, in the order of the group.
WEFT_API Call all_gather(const Tensor& in, const Tensor& out,
                         std::vector<std::int64_t> counts = {});
/// The same, into `out` of the root.
WEFT_API Call gather(const Tensor& in, const Tensor& out, int root,
                     std::vector<std::int64_t> counts = {});
/// The root's tensor in parts, a part into each rank's `out`. `in` counts at the root alone.
WEFT_API Call scatter(const Tensor& in, const Tensor& out, int root,
                      std::vector<std::int64_t> counts = {});
/// The n-th part of `in` goes to the n-th rank, and what the n-th rank has for this one becomes the
/// n-th part of `out`. Counts are this rank's own: what it sends to each, what it gets from each.
WEFT_API Call all_to_all(const Tensor& in, const Tensor& out,
                         std::vector<std::int64_t> in_counts = {},
                         std::vector<std::int64_t> out_counts = {});
/// out = the tensors of this rank and of all before it, combined.
WEFT_API Call scan(const Tensor& in, const Tensor& out, const ReduceOp& op);

namespace detail {
class CollectiveGroup;
struct PlannedCall;
}  // namespace detail

/// A collective bound to its tensors, to be run any number of times with no allocation,
/// registration or control message. Holds handles of its tensors. Thread-safety: as the Collectives
/// that it came from, which it must not outlive.
class [[nodiscard]] WEFT_API Plan {
 public:
  Plan() noexcept;
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  /// Destroying a plan that is under way gives the group up: every rank's operations on it end with
  /// Code::cancelled, since this rank's part will never come.
  ~Plan();

  /// Begins. The tensors are lent until it has ended. Up to four may be under way in a group; they
  /// run in the order in which they were started, which must be the same on every rank. Errors:
  /// bad_argument (it is under way already, or too many are), exhausted (calls of 63 other groups
  /// are under way), and those of wait().
  Status start() noexcept;
  /// Whether it has ended, well or not; helps it along, and what else the rank has begun but for
  /// messages that are to be read. Never blocks for others.
  bool test() noexcept;
  /// A timeout leaves it alive and names the ranks that have not come. Other errors end the whole
  /// group: peer_failed, peer_left, mismatch (ranks called different operations; the text has both
  /// calls), cancelled. Where their text says that tensors stay lent: Collectives::settle().
  Status wait(Deadline deadline = {}) noexcept;
  /// start() and wait().
  Status run(Deadline deadline = {}) noexcept;

 private:
  friend class Collectives;
  Plan(std::shared_ptr<detail::CollectiveGroup> group,
       std::shared_ptr<detail::PlannedCall> call) noexcept;
  std::shared_ptr<detail::CollectiveGroup> group_;
  std::shared_ptr<detail::PlannedCall> call_;
};

/// The collectives of a group of ranks. Results have the same bits on every rank, and the same from
/// run to run and, unless Call::deterministic is given up, from fabric to fabric: elements are
/// combined in one binary tree over the ranks in the group's order (scan: one after another).
/// 16-bit floats are combined in f32 and rounded once. All ranks
/// call the same operations in the same order. Ranks of one host read and write each other's
/// tensors in place, where they lie in the world's memory (World::allocate); other tensors are
/// copied once more, which is counted. What is under way goes on whenever a thread of the rank
/// waits for anything of weft, or tests a plan: ranks may wait for plans of several groups in any
/// order. Must go before its world. Thread-safety: one thread at a time; several groups may be used
/// by several threads.
class WEFT_API Collectives {
 public:
  Collectives() noexcept;
  Collectives(Collectives&&) noexcept;
  Collectives& operator=(Collectives&&) noexcept;
  ~Collectives();

  /// Of all ranks of the world. Every rank calls it, in the same order as others for the same
  /// ranks. Throws Error: timeout (naming a rank that has not), peer_failed, peer_left, exhausted.
  static Collectives open(World& world, Deadline deadline = {});
  /// Of the ranks listed, which all call it with the same list. Throws also bad_argument: a rank
  /// that the job does not have or that is there twice, or this rank is not among them.
  static Collectives open(World& world, std::span<const int> ranks, Deadline deadline = {});
  /// Of a group's members: after a rank has died, of Group::shrink()'s.
  static Collectives open(World& world, const Group& group, Deadline deadline = {});

  /// This rank's place in the group.
  int rank() const noexcept;
  /// 0 for a handle that was not opened.
  int size() const noexcept;
  /// By place: ranks of the world.
  std::span<const int> ranks() const noexcept;

  /// Throws Error: bad_argument, exhausted.
  Plan plan(const Call& call);
  /// A plan that was started. Throws as plan() and start().
  Plan start(const Call& call);
  /// Runs it once. Errors: as plan() and Plan::wait(). A timeout leaves no handle to go on with, so
  /// it ends the group; the others have up to 50 ms of the deadline to be out of the tensors.
  Status run(const Call& call, Deadline deadline = {}) noexcept;

  /// Waits until no other rank can touch the tensors of this group's calls that have ended. Needed
  /// after an error alone, and only if its text says that tensors stay lent: a rank that is stopped
  /// inside a tensor of this host may write the rest of a piece (256 KiB at most) when it goes on.
  /// Until settle() is ok such tensors must be neither written nor read; the group keeps their
  /// memory meanwhile (ArenaReport::quarantined_bytes), also after its handle is gone. Memory that
  /// is not the world's (Tensor::wrap) is the caller's at once: others see a copy. Errors: timeout,
  /// which names the rank; that rank's death ends the loan too.
  Status settle(Deadline deadline = {}) noexcept;

  /// Bytes that were copied in user space because tensors were not in the world's memory.
  std::uint64_t bytes_copied() const noexcept;

 private:
  explicit Collectives(std::shared_ptr<detail::CollectiveGroup> group) noexcept;
  std::shared_ptr<detail::CollectiveGroup> group_;
};

}  // namespace weft
