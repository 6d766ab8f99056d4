// What a rank counts of a table, and shows while it works.
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

/// Counts on the table's stats segment page, which weft-status reads; with a folder for metrics the
/// thread that uses the table also writes a file there, at most once a second. Thread-safety: one
/// thread at a time, as the table.
class TableInsight {
 public:
  /// `folder` empty: no file. Throws Error(system), std::bad_alloc.
  TableInsight(World& world, const stats::TableAbout& about, std::string folder);
  /// Writes the file once more.
  ~TableInsight();
  TableInsight(const TableInsight&) = delete;
  TableInsight& operator=(const TableInsight&) = delete;

  /// A moment of the clock of what is counted.
  static std::uint64_t now() noexcept;

  // A worker's calls; the rows are a sparse table's.
  void pushed(std::uint64_t bytes, std::uint64_t rows) noexcept;
  /// After a push that was compressed.
  void compressed(const CompressionStatistics& statistics) noexcept;
  /// One that began at `since` and has ended now.
  void pulled(std::uint64_t bytes, std::uint64_t rows, std::uint64_t since) noexcept;
  /// One without values to show, and calls that failed: only the time counts.
  void waited(std::uint64_t since) noexcept;
  void reached(std::uint64_t version) noexcept;

  /// What this rank's shard has done by now, `busy_ns` of it since the last call.
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
