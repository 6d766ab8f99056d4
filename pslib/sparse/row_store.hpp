// A shard's rows of a sparse table: parameters and optimizer states, created on first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pslib/sparse/row_cut.hpp"
#include "pslib/sparse/row_index.hpp"

namespace weft::pslib {

struct RowRules {
  std::size_t dim = 1;     ///< f32 per row
  std::size_t states = 0;  ///< state arrays per row, each of `dim` f32
  std::uint64_t seed = 0;
  float spread = 0.0F;             ///< initial values are uniform in [-spread, spread)
  std::uint32_t admit_after = 0;   ///< lookups before a row is stored
  std::uint64_t expire_after = 0;  ///< unused versions before a row is forgotten; 0: never
};

/// A row's values before its first update: a function of (seed, id) alone.
void initial_row(const RowRules& rules, std::uint64_t id, float* to) noexcept;

/// Rows by id. A call's result depends only on calls for the same id, never on other rows or on
/// when forget() ran: an expired row counts as never seen. Not thread-safe.
class RowStore {
 public:
  explicit RowStore(const RowRules& rules);

  /// Copies a row's parameters to `to`. Counts as a lookup for admission and as a use. Throws
  /// std::bad_alloc.
  void look_up(std::uint64_t id, std::uint64_t version, float* to);
  /// The row's parameters, followed by its states, for changing in place; valid until the next call
  /// of any function. Null if the row is not admitted. Throws std::bad_alloc.
  float* to_update(std::uint64_t id, std::uint64_t version);
  /// Prefetches the data that look_up() and to_update() need for `ids`, at most kMostFetched.
  void fetch(std::span<const std::uint64_t> ids) const noexcept;
  static constexpr std::size_t kMostFetched = 32;
  /// Frees the memory of expired rows for others.
  void forget(std::uint64_t version);

  /// A snapshot of the rows for another thread. The store goes on and must outlive the snapshot.
  /// Copies of rows take at most 1/8 of all rows' memory, or 1 MiB. One snapshot at a time. Throws
  /// std::bad_alloc.
  std::shared_ptr<RowCut> cut();
  /// Restores a row of a cut; a null `row` is one that is only counted. False if the row is known
  /// already. Throws std::bad_alloc.
  bool put_back(std::uint64_t id, std::uint32_t lookups, std::uint64_t last_use, const float* row);

  /// Known rows, stored or only counted.
  std::size_t rows() const noexcept { return ids_.size(); }
  /// Memory in use.
  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t kChunk = RowCut::kChunk;

  std::uint32_t known(std::uint64_t id, std::uint64_t version);
  void add(std::uint64_t id);
  bool is_past(std::uint32_t number, std::uint64_t version) const noexcept;
  bool is_stored(std::uint32_t number) const noexcept { return places_[number] != RowIndex::kNone; }
  void store(std::uint32_t number);
  void free_place(std::uint32_t number);
  void take_place(std::uint32_t number);
  void keep(std::uint32_t place);
  float* at(std::uint32_t place) const noexcept;

  const RowRules rules_;
  const std::size_t width_;  // f32 of a row with its states
  RowIndex index_;
  std::vector<std::uint64_t> ids_;
  std::vector<std::uint32_t> places_;    // in the chunks; RowIndex::kNone: only counted
  std::vector<std::uint32_t> lookups_;   // used if rows need admission
  std::vector<std::uint64_t> last_use_;  // used if rows expire
  std::vector<std::uint32_t> free_places_;
  std::vector<std::unique_ptr<float[]>> chunks_;
  std::shared_ptr<RowCut> cut_;  // null if there is none
};

}  // namespace weft::pslib
