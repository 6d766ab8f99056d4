#include "runtime/collective/gpu_words.hpp"

#include <algorithm>
#include <new>

namespace weft::detail {

bool GpuWords::hear(std::size_t member, std::uint64_t number, std::uint32_t mark,
                    GpuWord word) noexcept {
  if (word == GpuWord::no) has_no_.store(true);
  const std::lock_guard lock(mutex_);
  try {
    all_.resize(members_);
  } catch (const std::bad_alloc&) {
    has_no_.store(true);
    return true;
  }
  Member& from = all_[member];
  const auto known = std::ranges::find(from.said, number, &Said::number);
  Said& said = known == from.said.end() ? from.said[from.next++ % kKept] : *known;
  // The first final word stays: what a closed group answers comes later.
  if (said.number != number || said.word <= GpuWord::offers) said = {number, mark, word};
  const bool offers = word == GpuWord::offers || word == GpuWord::yes;
  return offers && number <= begun_ && offered_[number % kKept] != number;
}

std::vector<std::size_t> GpuWords::begin(std::uint64_t number, bool offers) {
  std::vector<std::size_t> told;
  const std::lock_guard lock(mutex_);
  if (offers) all_.resize(members_);
  begun_ = std::max(begun_, number);
  offered_[number % kKept] = offers ? number : 0;
  if (offers) return told;
  for (std::size_t member = 0; member < all_.size(); ++member)
    for (const Said& said : all_[member].said)
      if (said.number == number && (said.word == GpuWord::offers || said.word == GpuWord::yes))
        told.push_back(member);
  return told;
}

GpuWord GpuWords::said(std::size_t member, std::uint64_t number,
                       std::uint32_t mark) const noexcept {
  const std::lock_guard lock(mutex_);
  if (all_.empty()) return GpuWord::none;
  for (const Said& said : all_[member].said)
    if (said.number == number && number != 0)
      return said.mark == mark || said.word > GpuWord::yes ? said.word : GpuWord::later;
  return GpuWord::none;
}

}  // namespace weft::detail
