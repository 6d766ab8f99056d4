#include "pslib/sparse/unique_ids.hpp"

#include <algorithm>
#include <bit>

#include "base/mix64.hpp"

namespace weft::pslib {

void UniqueIds::begin(std::size_t most) {
  ids_.clear();
  ids_.reserve(most);
  if (entries_.size() < 2 * most) entries_.assign(std::bit_ceil(2 * most), {});
  if (++batch_ != 0) return;
  std::ranges::fill(entries_, Entry{});
  batch_ = 1;
}

std::uint32_t UniqueIds::add(std::uint64_t id) noexcept {
  const std::size_t last = entries_.size() - 1;
  for (std::size_t at = mix64(id) & last;; at = (at + 1) & last) {
    Entry& entry = entries_[at];
    if (entry.batch != batch_) {
      entry = {id, batch_, static_cast<std::uint32_t>(ids_.size())};
      ids_.push_back(id);
      return entry.number;
    }
    if (entry.id == id) return entry.number;
  }
}

}  // namespace weft::pslib
