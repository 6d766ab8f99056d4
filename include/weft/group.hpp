// Groups: ordered subsets of a job's ranks, and the agreement on a group's survivors.
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

/// An ordered subset of a world's ranks. Immutable and cheap to copy. All members hold equal
/// groups, including the order and id(). A group may outlive its world, but then subset() and
/// shrink() fail with Code::closed. Thread-safety: a value; copies may be used by different
/// threads.
class WEFT_API Group {
 public:
  /// The empty group.
  Group() noexcept = default;

  /// This rank's place in the group, from 0; -1 if this rank is not a member.
  int rank() const noexcept;
  int size() const noexcept { return static_cast<int>(members().size()); }
  /// The members' ranks in the world, by place. Valid as long as a copy of this group exists.
  std::span<const int> members() const noexcept;
  /// The place of rank `world_rank` of the world; -1 if it is not a member.
  int place_of(int world_rank) const noexcept;
  bool contains(int world_rank) const noexcept { return place_of(world_rank) >= 0; }
  /// The number of shrinks between the world's group and this one.
  std::uint32_t epoch() const noexcept;
  /// A number that is equal for groups with the same members, order and epoch, and only for those.
  std::uint64_t id() const noexcept;

  /// The group of the members at `places`, in this order. Each of these members must call it with
  /// equal arguments. Sends no messages. Throws Error: bad_argument (no such place, a place given
  /// twice, or this group is empty), closed.
  Group subset(std::span<const int> places) const;

  /// The colour of a rank that is to be in no group of a split().
  static constexpr int kNoColour = -1;
  /// Splits this group: the members that give one `colour`, from 0 on, get the group of these, in
  /// the order of their `key` and, of equal keys, of their places in this group. A member with
  /// kNoColour gets the empty group. Every member calls it, and equal groups are split in the same
  /// order on each, by one thread at a time. A member sends and receives about 2 log2 N messages.
  ///
  /// Errors: timeout (names a member that has not called it), peer_failed, peer_left, bad_argument
  /// (a colour below -1; not a member; the group is empty), exhausted, closed (the world is gone),
  /// forked. After an error, which other members may not have seen, every member may call
  /// it again: one that comes late to a split that others have given up takes part in their next.
  Result<Group> split(int colour, int key = 0, Deadline deadline = {}) const noexcept;

  /// Agrees with the other members on the survivors: every survivor gets the same group, in the
  /// former order. Any member may call it at any time; the others answer from their progress
  /// threads. The result excludes members that have died or left, and those that a member of the
  /// result has declared dead. Two exceptions: of two members that have declared each other dead,
  /// the later one is excluded; and a member that has declared half of the members or more dead is
  /// excluded itself, or those of them that come after it. A member that dies or is declared dead
  /// during the call may still be included, so shrink again. To the ranks in the result, a rank
  /// outside it is dead.
  ///
  /// Errors: partitioned (this rank was cut off from more than half of the last group the world
  /// agreed on, or from exactly the half with its first member; end this process), fenced (the
  /// other ranks have declared this one dead), timeout (names the ranks that did not answer),
  /// bad_argument (not a member, or an empty group), closed (the world is gone, or other members
  /// have shrunk more than 256 groups further), exhausted (more than 65535 members).
  ///
  /// Only the world's group and its shrunk descendants can exclude a rank that is unreachable but
  /// may be alive. A subset that has lost such a member waits for the world's decision and never
  /// excludes a rank itself. Source: decision 016.
  Result<Group> shrink(Deadline deadline = {}) const noexcept;

 private:
  friend struct detail::GroupState;
  explicit Group(std::shared_ptr<const detail::GroupState> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<const detail::GroupState> state_;
};

}  // namespace weft
