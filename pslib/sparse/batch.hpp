// A worker's batch of ids: each once, by the server that has its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pslib/sparse/description.hpp"
#include "pslib/sparse/unique_ids.hpp"

namespace weft::pslib {

/// Thread-safety: one thread at a time.
class Batch {
 public:
  /// Where an id went: a server's place among the servers, and its place among that server's rows.
  struct Place {
    std::uint32_t server = 0;
    std::uint32_t row = 0;
  };

  /// `table` must outlive the batch.
  explicit Batch(const SparseDescription& table);

  /// Throws std::bad_alloc.
  void assign(std::span<const std::uint64_t> ids);
  bool is_of(std::span<const std::uint64_t> ids) const noexcept;

  /// For each id, in the batch's order.
  std::span<const Place> places() const noexcept { return places_; }
  /// A server's ids, in the order in which they first came.
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
