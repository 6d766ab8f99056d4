// One question to many members of a group: through whom each is asked, and who has answered.
#pragma once

#include <functional>
#include <vector>

#include "runtime/health/agreement_message.hpp"

namespace weft::detail {

/// The members that a member asks directly, each with a part of the others to pass the question on
/// to: its subtree.
inline constexpr int kFanOut = 8;

/// The member that passes a question on to `member` if every member of `asked`, ascending, is asked
/// by its first. `member` is in `asked`, and is not the first.
int parent_of(int member, const std::vector<int>& asked, int fan_out) noexcept;

/// Asks a set of members through at most `fan_out` children, whose subtrees are runs of that set.
/// If a child is lost or says that it has no further answers, the members of its subtree that have
/// not answered are asked directly: so at most one member stands between, and each step leaves
/// fewer. Every question reaches a member that answers for itself. Not thread-safe.
class Gathering {
 public:
  using Ask = std::function<void(int child, const Places& subtree)>;

  Gathering(int size, int fan_out);

  /// Adds members to those that are to be asked.
  void want(const Places& members);
  /// Asks those that nobody has been asked for. `out`: the members that can't answer any more.
  void ask(const Places& out, const Ask& send);
  /// `members` have answered through `child`. Unless `more` follows, the rest of its subtree has
  /// not, and a child that is not in `members` itself doesn't answer this question. Returns the
  /// members that count: those that were asked through this child.
  Places answered(int child, const Places& members, bool more);

  /// The first of `members` whose answer is awaited; -1: none.
  int awaited(const Places& members, const Places& out) const noexcept;
  const Places& wanted() const noexcept { return wanted_; }
  const Places& have_answered() const noexcept { return answered_; }

 private:
  static constexpr int kNobody = -1;

  std::size_t size() const noexcept { return wanted_.size(); }
  bool is_open(std::size_t member, const Places& out) const noexcept {
    return wanted_[member] && !answered_[member] && !declined_[member] && !out[member];
  }

  const std::size_t fan_out_;
  Places wanted_;
  Places answered_;
  Places declined_;       ///< they have said that they don't answer
  Places alone_;          ///< to be asked directly
  std::vector<int> via_;  ///< the child that was asked for each member
};

}  // namespace weft::detail
