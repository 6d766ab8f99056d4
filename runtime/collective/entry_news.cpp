#include "runtime/collective/entry_news.hpp"

#include <algorithm>
#include <utility>

namespace weft::detail {

EntryNews::Member& EntryNews::at(int member) {
  if (members_.empty()) members_.resize(size_);
  return members_[static_cast<std::size_t>(member)];
}

const EntryNews::Member* EntryNews::find(int member) const noexcept {
  return members_.empty() ? nullptr : &members_[static_cast<std::size_t>(member)];
}

void EntryNews::ask(int member, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  Member& known = at(member);
  known.asked = std::max(known.asked, number);
}

void EntryNews::hear(int member, std::uint64_t number, std::vector<int> absent) {
  const std::lock_guard lock(mutex_);
  Member& known = at(member);
  if (number < known.entered) return;
  known.entered = number;
  known.absent = std::move(absent);
}

bool EntryNews::was_asked(int member, std::uint64_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  const Member* const known = find(member);
  return known != nullptr && known->asked >= number;
}

bool EntryNews::has_entered(int member, std::uint64_t number) const noexcept {
  const std::lock_guard lock(mutex_);
  const Member* const known = find(member);
  return known != nullptr && known->entered >= number;
}

std::vector<int> EntryNews::missed_by(int member, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const Member* const known = find(member);
  return known != nullptr && known->entered == number ? known->absent : std::vector<int>{};
}

void EntryNews::set_missed(std::uint64_t number, std::vector<int> absent) noexcept {
  const std::lock_guard lock(mutex_);
  missed_in_ = number;
  missed_ = std::move(absent);
}

std::vector<int> EntryNews::missed(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return missed_in_ == number ? missed_ : std::vector<int>{};
}

}  // namespace weft::detail
