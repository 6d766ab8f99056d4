// A worker's batch of ids, deduplicated and grouped by server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pslib/sparse/description.hpp"
#include "pslib/sparse/unique_ids.hpp"

namespace weft::pslib {

/// Not thread-safe.
class Batch {
 public:
  /// An id's server, as index among the servers, and its index among that server's rows.
  struct Place {
    std::uint32_t server = 0;
    std::uint32_t row = 0;
  };

  /// `table` must outlive the batch.
  explicit Batch(const SparseDescription& table);

  /// Throws std::bad_alloc.
  void assign(std::span<const std::uint64_t> ids);
  bool is_of(std::span<const std::uint64_t> ids) const noexcept;

  /// One per id, in the batch's order.
  std::span<const Place> places() const noexcept { return places_; }
  /// The ids of one server, in the order of first occurrence.
  std::span<const std::uint64_t> rows(std::size_t server) const noexcept { return rows_[server]; }

 private:
  const SparseDescription* table_;
  std::vector<std::uint64_t> ids_;
  UniqueIds unique_;
  std::vector<Place> unique_places_;
  std::vector<Place> places_;
  std::vector<std::vector<std::uint64_t>> rows_;
};

}  // namespace weft::pslib
