// The rows that each of the last versions has changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "pslib/publication/layout.hpp"

namespace weft::pslib {

/// Remembers a limited number of versions and runs. Not thread-safe.
class History {
 public:
  static constexpr std::size_t kMostRuns = 1u << 20;  ///< 16 MiB

  explicit History(std::size_t most_versions, std::size_t most_runs = kMostRuns) noexcept
      : most_versions_(most_versions), most_runs_(most_runs) {}

  /// Adds the rows changed by the next version; versions count from 1.
  void add(RowRuns changed);
  std::uint64_t newest() const noexcept { return newest_; }
  /// The changed rows of consecutive versions. Stays valid when the history goes on.
  using Changes = std::vector<std::shared_ptr<const RowRuns>>;

  /// The changes from `version` to the newest; nullopt if they are no longer known or never were.
  /// Takes time proportional to the number of versions, not of rows.
  std::optional<Changes> since(std::uint64_t version) const;
  /// The rows whose values may differ.
  static RowRuns united(const Changes& changes);

 private:
  const std::size_t most_versions_;
  const std::size_t most_runs_;
  std::deque<std::shared_ptr<const RowRuns>> changes_;  ///< of the newest versions, newest last
  std::size_t runs_ = 0;                                ///< in all versions
  std::uint64_t newest_ = 0;
};

}  // namespace weft::pslib
