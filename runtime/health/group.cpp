#include "weft/group.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "runtime/health/membership.hpp"
#include "runtime/health/split.hpp"

namespace weft {

int Group::rank() const noexcept { return state_ ? state_->place : -1; }

std::span<const int> Group::members() const noexcept {
  return state_ ? std::span<const int>(state_->members) : std::span<const int>();
}

int Group::place_of(int world_rank) const noexcept {
  const auto all = members();
  const auto found = std::find(all.begin(), all.end(), world_rank);
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

std::uint32_t Group::epoch() const noexcept { return state_ ? state_->epoch : 0; }
std::uint64_t Group::id() const noexcept { return state_ ? state_->id : 0; }

namespace {

Status without_world(const char* operation) noexcept {
  return refuse(Code::closed, [&] {
    return ErrorDetail{.operation = operation, .message = "the group's world is gone"};
  });
}

}  // namespace

Group Group::subset(std::span<const int> places) const {
  require_state(state_, "Group", "subset");
  return control_call("subset", [&]() -> Group {
    const auto refuse = [](const std::string& message) {
      throw_error(Code::bad_argument, "subset", message);
    };
    std::vector<int> chosen;
    for (const int place : places) {
      if (place < 0 || place >= size())
        refuse(fmt::format("there is no place {} in a group of {}", place, size()));
      const int member = members()[static_cast<std::size_t>(place)];
      if (std::find(chosen.begin(), chosen.end(), member) != chosen.end())
        refuse(fmt::format("place {} is there twice", place));
      chosen.push_back(member);
    }
    if (chosen.empty()) return {};
    const auto membership = state_->membership.lock();
    if (!membership)
      throw Error(ErrorDetail{
          .code = Code::closed, .operation = "subset", .message = "the group's world is gone"});
    require_usable(membership, "Group", "subset");
    return membership->make(std::move(chosen), epoch());
  });
}

Result<Group> Group::split(int colour, int key, Deadline deadline) const noexcept {
  if (!state_) return empty_handle("Group", "split");
  if (const auto membership = state_->membership.lock())
    return detail::split(*membership, *state_, colour, key, deadline);
  return without_world("split");
}

Result<Group> Group::shrink(Deadline deadline) const noexcept {
  if (!state_) return empty_handle("Group", "shrink");
  if (const auto membership = state_->membership.lock())
    return membership->shrink(*state_, deadline);
  return without_world("shrink");
}

}  // namespace weft
