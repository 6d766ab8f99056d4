// Every member puts its colour and key at its place of a list that is zero elsewhere; the "or" of
// all lists tells each member what all have given.
#include "runtime/health/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "base/fail.hpp"

namespace weft::detail {
namespace {

/// A member whose split has failed takes no further part, and this rank may hear of that before it
/// hears of the death that is behind it.
constexpr std::chrono::seconds kUntilKnown{1};

/// The word of a member's colour: above 0 for every colour.
constexpr std::int64_t word_of(int colour) noexcept { return std::int64_t{colour} + 2; }

Status failure(const Membership& membership, Code code, std::string message, std::string hint) {
  ErrorDetail detail = error_detail(code, "split", std::move(message), std::move(hint));
  detail.rank = membership.rank();
  return Status(std::move(detail));
}

}  // namespace

Result<Group> split(Membership& membership, const GroupState& group, int colour, int key,
                    Deadline deadline) noexcept {
  if (membership.over()) return membership.refusal("split");
  try {
    if (group.place < 0)
      return failure(membership, Code::bad_argument, "this rank is no member of the group", "");
    if (colour < Group::kNoColour)
      return failure(membership, Code::bad_argument, fmt::format("{} is no colour", colour),
                     "give a number from 0 on, or Group::kNoColour to be in no group");
    const std::size_t size = group.members.size();
    const auto own = static_cast<std::size_t>(group.place);
    std::vector<std::int64_t> words(2 * size);  // all colours, then all keys
    words[own] = word_of(colour);
    words[size + own] = key;
    membership.join_words(group.members, words, deadline);
    if (colour == Group::kNoColour) return Group();
    std::vector<std::size_t> places;
    for (std::size_t place = 0; place < size; ++place)
      if (words[place] == word_of(colour)) places.push_back(place);
    std::ranges::stable_sort(places, {}, [&](std::size_t place) { return words[size + place]; });
    std::vector<int> members;
    for (const std::size_t place : places) members.push_back(group.members[place]);
    return membership.make(std::move(members), group.epoch);
  } catch (const Error& error) {
    Status lost;
    if (error.code() == Code::closed) {
      const Deadline until = Deadline::after(kUntilKnown);
      const bool is_earlier = !deadline.is_default() && deadline.when() < until.when();
      lost = membership.await_loss(group.members, is_earlier ? deadline : until);
    }
    ErrorDetail detail = lost.ok() ? error.detail() : lost.detail();
    detail.operation = "split";
    if (detail.code == Code::closed && detail.peer >= 0) {
      detail.code = Code::timeout;  // that member's deadline has passed
      detail.message = fmt::format("rank {} has given up this split", detail.peer);
    }
    if (detail.code == Code::timeout)
      detail.hint = "every member of a group calls split(), as often and in the same order";
    return Status(std::move(detail));
  } catch (const std::bad_alloc&) {
    return Status(ErrorDetail{.code = Code::exhausted, .operation = "split"});
  }
}

}  // namespace weft::detail
