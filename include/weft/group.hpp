// Some of a job's ranks, in an order, who do something together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft {

namespace detail {
struct GroupState;
}

/// An ordered subset of a world's ranks. Immutable and cheap to copy; equal on all its members, the
/// order and id() included. It may outlive its world, but then can't shrink any more.
/// Thread-safety: a value; copies may be used by different threads.
class WEFT_API Group {
 public:
  /// Of nobody.
  Group() noexcept = default;

  /// This rank's place in it, from 0; -1: it is no member.
  int rank() const noexcept;
  int size() const noexcept { return static_cast<int>(members().size()); }
  /// The members' ranks in the world, by their place.
  std::span<const int> members() const noexcept;
  /// The place of a rank of the world; -1: it is no member.
  int place_of(int world_rank) const noexcept;
  bool contains(int world_rank) const noexcept { return place_of(world_rank) >= 0; }
  /// How many times it was shrunk since the world's group.
  std::uint32_t epoch() const noexcept;
  /// The same number for groups of the same members, order and epoch, and for no other.
  std::uint64_t id() const noexcept;

  /// The members at these places, in this order; for each of them to call with equal arguments.
  /// Without messages. Throws Error(bad_argument): no such place, or one twice.
  Group subset(std::span<const int> places) const;

  /// The members that go on, in their order: all survivors get the same group. Any member may ask,
  /// at any time; the others answer for themselves. Members that have died or left are not in it,
  /// nor any that a member has declared dead; whoever dies meanwhile may be, so ask again. A rank
  /// that is not in the answer is dead for those that are. Errors: partitioned (this rank was cut
  /// off from most of the world's last agreed group, or from its first half; it is to end), fenced
  /// (the others have given this rank up), timeout (which names who did not answer), bad_argument
  /// (not a member), closed (its world is gone), exhausted (more than 5000 members).
  ///
  /// A rank that can't be reached and may live is counted out by the world alone: its group, and
  /// what that was shrunk to. A subset that has lost such a member asks the world first; it never
  /// excludes a rank itself.
  Result<Group> shrink(Deadline deadline = {}) const noexcept;

 private:
  friend struct detail::GroupState;
  explicit Group(std::shared_ptr<const detail::GroupState> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<const detail::GroupState> state_;
};

}  // namespace weft
