#include "pslib/compression/slot_cut.hpp"

#include <algorithm>

namespace weft::pslib {
namespace {

constexpr std::int64_t kLine = 64;  // bytes
/// A gap of up to this number of lines costs less than a run of its own.
constexpr std::int64_t kGap = 4;

}  // namespace

SlotCut::SlotCut(std::int64_t elements, std::size_t width)
    : elements_(elements), line_(kLine / static_cast<std::int64_t>(width)) {}

void SlotCut::add(std::int64_t first, std::int64_t count) {
  if (count == 0) return;
  const std::int64_t begin = first / line_ * line_;
  const std::int64_t end = std::min((first + count + line_ - 1) / line_ * line_, elements_);
  if (!runs_.empty()) {
    SlotRun& last = runs_.back();
    const std::int64_t last_end = last.first + last.count;
    if (begin - last_end <= kGap * line_) {
      last.count = std::max(last_end, end) - last.first;
      return;
    }
  }
  places_.push_back(runs_.empty() ? 0 : places_.back() + runs_.back().count);
  runs_.push_back({begin, end - begin, nullptr});
}

std::int64_t SlotCut::place(std::int64_t element) const noexcept {
  const auto after = std::ranges::upper_bound(runs_, element, {}, &SlotRun::first);
  const auto run = after - runs_.begin() - 1;
  return places_[static_cast<std::size_t>(run)] + element -
         runs_[static_cast<std::size_t>(run)].first;
}

}  // namespace weft::pslib
