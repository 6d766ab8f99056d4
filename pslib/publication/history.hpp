// Which rows the last versions have changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "pslib/publication/layout.hpp"

namespace weft::pslib {

/// Of at most so many versions, and so many runs in all. Thread-safety: one thread at a time.
class History {
 public:
  static constexpr std::size_t kMostRuns = 1u << 20;  ///< 16 MiB

  explicit History(std::size_t most_versions, std::size_t most_runs = kMostRuns) noexcept
      : most_versions_(most_versions), most_runs_(most_runs) {}

  /// What the next version has changed; versions count from 1.
  void add(RowRuns changed);
  std::uint64_t newest() const noexcept { return newest_; }
  /// What each version after one has changed. Stays when the history goes on.
  using Changes = std::vector<std::shared_ptr<const RowRuns>>;

  /// The changes between `version` and the newest; nullopt where they are not known any more, or
  /// never were. Quick, however many rows they are.
  std::optional<Changes> since(std::uint64_t version) const;
  /// The rows whose values may differ.
  static RowRuns united(const Changes& changes);

 private:
  const std::size_t most_versions_;
  const std::size_t most_runs_;
  std::deque<std::shared_ptr<const RowRuns>> changes_;  ///< of the newest versions, the newest last
  std::size_t runs_ = 0;                                ///< in all of them
  std::uint64_t newest_ = 0;
};

}  // namespace weft::pslib
