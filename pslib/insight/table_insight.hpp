// A rank's counters of a table, visible while it works.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "base/stats/table_stats.hpp"
#include "pslib/insight/shard_load.hpp"
#include "weft/pslib.hpp"
#include "weft/sparse_table.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Counts on the table's page of the stats segment, which weft-status reads. With a metrics folder,
/// the thread that uses the table also writes a file there at most once a second. Not thread-safe.
class TableInsight {
 public:
  /// Empty `folder`: no file. Throws Error(system), std::bad_alloc.
  TableInsight(World& world, const stats::TableAbout& about, std::string folder);
  /// Writes the file a last time.
  ~TableInsight();
  TableInsight(const TableInsight&) = delete;
  TableInsight& operator=(const TableInsight&) = delete;

  /// The clock of the counted times, in ns.
  static std::uint64_t now() noexcept;

  // A worker's calls; rows are for sparse tables.
  void pushed(std::uint64_t bytes, std::uint64_t rows) noexcept;
  /// Call after a compressed push.
  void compressed(const CompressionStatistics& statistics) noexcept;
  /// Copies between host memory and a GPU so far.
  void staged(std::uint64_t bytes, std::uint64_t copies) noexcept;
  /// A pull that began at `since` and ends now.
  void pulled(std::uint64_t bytes, std::uint64_t rows, std::uint64_t since) noexcept;
  /// A pull without values to count, or a failed call: counts only its time.
  void waited(std::uint64_t since) noexcept;
  void reached(std::uint64_t version) noexcept;

  /// Records the shard's progress; `busy_ns` is the time worked since the last call.
  void served(std::uint64_t version, const ShardLoad& load, const TableStatistics& pushes,
              std::uint64_t busy_ns) noexcept;

 private:
  void show(std::uint64_t now) noexcept;
  void write() noexcept;

  stats::TableStats stats_;
  const std::string folder_;  // empty: no file
  const std::string name_;
  const std::shared_ptr<Log> log_;
  std::uint64_t due_ = 0;
  bool has_failed_ = false;
};

}  // namespace weft::pslib
