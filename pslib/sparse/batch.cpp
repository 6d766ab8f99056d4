#include "pslib/sparse/batch.hpp"

#include <algorithm>

namespace weft::pslib {

Batch::Batch(const SparseDescription& table) : table_(&table), rows_(table.roles.servers.size()) {}

void Batch::assign(std::span<const std::uint64_t> ids) {
  places_.clear();
  unique_places_.clear();
  for (auto& rows : rows_) rows.clear();
  ids_.clear();  // an exception leaves an empty batch
  unique_.begin(ids.size());
  places_.reserve(ids.size());
  for (const std::uint64_t id : ids) {
    const std::uint32_t number = unique_.add(id);
    if (number == unique_places_.size()) {
      const std::size_t server = table_->server_of(id);
      unique_places_.push_back(
          {static_cast<std::uint32_t>(server), static_cast<std::uint32_t>(rows_[server].size())});
      rows_[server].push_back(id);
    }
    places_.push_back(unique_places_[number]);
  }
  ids_.assign(ids.begin(), ids.end());
}

bool Batch::is_of(std::span<const std::uint64_t> ids) const noexcept {
  return std::ranges::equal(ids_, ids);
}

}  // namespace weft::pslib
