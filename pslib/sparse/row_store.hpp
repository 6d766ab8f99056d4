// A shard's rows of a sparse table: parameters and the rule's state, made when they are first
// needed.
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
  std::size_t dim = 1;     ///< f32 in a row
  std::size_t states = 0;  ///< arrays of state beside it, as long
  std::uint64_t seed = 0;
  float spread = 0.0F;             ///< initial values lie evenly in [-spread, spread)
  std::uint32_t admit_after = 0;   ///< lookups without which a row is not stored
  std::uint64_t expire_after = 0;  ///< versions without use after which it is forgotten; 0: never
};

/// What a row holds before its first update: a function of (seed, id) alone.
void initial_row(const RowRules& rules, std::uint64_t id, float* to) noexcept;

/// Rows by id. What a call returns depends on the calls for that id alone, never on other rows or
/// on when forget() was called: a row past its time counts as never seen.
/// Thread-safety: one thread at a time.
class RowStore {
 public:
  explicit RowStore(const RowRules& rules);

  /// A row's parameters at this version into `to`. Counts towards its admission and as a use.
  /// Throws std::bad_alloc.
  void look_up(std::uint64_t id, std::uint64_t version, float* to);
  /// A row's parameters to change in place, then its arrays of state; valid until the next call of
  /// any function. Null for one that is not admitted. Throws std::bad_alloc.
  float* to_update(std::uint64_t id, std::uint64_t version);
  /// Begins to load what look_up() and to_update() of these need, at most kMostFetched.
  void fetch(std::span<const std::uint64_t> ids) const noexcept;
  static constexpr std::size_t kMostFetched = 32;
  /// Gives the memory of rows past their time to others.
  void forget(std::uint64_t version);

  /// The rows as they are now, for another thread; the store goes on and must outlive it. Copies of
  /// rows take at most an eighth of all rows' memory, or 1 MiB. One at a time. Throws
  /// std::bad_alloc.
  std::shared_ptr<RowCut> cut();
  /// A row of a cut; `row` null: one that is only counted. False for one that is known already.
  /// Throws std::bad_alloc.
  bool put_back(std::uint64_t id, std::uint32_t lookups, std::uint64_t last_use, const float* row);

  /// Known ones: stored, or counted.
  std::size_t rows() const noexcept { return ids_.size(); }
  /// Of memory, all in all.
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
  std::vector<std::uint32_t> lookups_;   // where rows are admitted
  std::vector<std::uint64_t> last_use_;  // where they expire
  std::vector<std::uint32_t> free_places_;
  std::vector<std::unique_ptr<float[]>> chunks_;
  std::shared_ptr<RowCut> cut_;  // null once it is over
};

}  // namespace weft::pslib
