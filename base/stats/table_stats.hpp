// The page in which a rank shows the state of a parameter server's table to processes of the same
// user.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "base/stats/layout.hpp"

// Each table has a memfd of one page named kTableFileName, found through /proc/PID/fd, which lives
// as long as the table. Integers have the machine's byte order. `magic` is stored last: a reader
// that sees it also sees the identity, which never changes. Every other word is loaded whole; two
// words may be of two moments.
namespace weft::stats {

inline constexpr const char* kTableFileName = "weft-table";
inline constexpr std::uint64_t kTableMagic = 0x656c626174666577;  // the bytes "weftable"
inline constexpr std::uint32_t kTableVersion = 3;

/// This rank as a worker; written by the worker's thread.
struct alignas(64) TableWorkerLine {
  Counter pushes;
  Counter pulls;        ///< lookups of a sparse table
  Counter rows_pushed;  ///< 0 for a dense table
  Counter rows_pulled;
  Counter bytes_pushed;
  Counter bytes_pulled;
  Counter waited_ns;  ///< time waited in pulls, lookups and waits for an update
  Word version;
};
static_assert(sizeof(TableWorkerLine) == 64);

/// A worker whose pushes are compressed; written by the worker's thread.
struct alignas(64) TableCompressionLine {
  Word bytes_spared;   ///< bytes of gradients not sent; 0: no compression
  Word nanoseconds;    ///< time spent compressing
  Word residual_norm;  ///< bits of an f64: norm of the residual after the last push
  std::array<Word, 5> reserved;
};
static_assert(sizeof(TableCompressionLine) == 64);

/// This rank's shard; written by the shard's thread.
struct alignas(64) TableShardLines {
  Word version;
  Word requests;    ///< pushes and lookups accepted
  Word queue;       ///< accepted requests that wait for others
  Counter busy_ns;  ///< time in requests and updates, on a rank that only serves
  Word applied;     ///< pushes applied
  Word folded;
  Word dropped;
  Word bytes_read;
  Word bytes_written;
  Word memory;  ///< bytes of parameters, states and a sparse table's index
  Word rows;    ///< this and the next three: sparse tables only
  Word rows_looked_up;
  Word rows_updated;
  Word gradients_not_admitted;
  std::array<Word, 2> reserved;
};
static_assert(sizeof(TableShardLines) == 128);

inline constexpr std::size_t kStalenessWords = 64;

struct TablePage {
  Word magic;
  std::uint32_t version;
  std::int32_t rank;
  std::int32_t pid;
  std::uint32_t is_sparse;
  std::uint32_t works;
  std::uint32_t serves;
  std::uint64_t start_monotonic_ns;
  std::array<char, 64> server;
  std::array<char, 128> table;
  std::array<char, 24> reserved;
  TableWorkerLine worker;
  TableCompressionLine compression;
  TableShardLines shard;
  GpuCounters gpu;  ///< of a worker whose tensors lie on a GPU
  /// Histogram: element i counts pushes computed from values that were i versions old.
  alignas(64) std::array<Word, kStalenessWords> staleness;
};
static_assert(sizeof(TablePage) == 1088 && offsetof(TablePage, worker) == 256);

struct TableAbout {
  std::string_view server;
  std::string_view table;
  int rank = 0;
  bool is_sparse = false;
  bool works = false;
  bool serves = false;
};

/// A table's page, written by its rank. If no memfd can be had, only this process sees the page.
/// Thread-safety: each line has one writer at a time.
class TableStats {
 public:
  /// Throws Error(system, exhausted) if there is no memory.
  explicit TableStats(const TableAbout& about);

  TablePage& page() noexcept { return *reinterpret_cast<TablePage*>(memory_.data()); }
  const TablePage& page() const noexcept {
    return *reinterpret_cast<const TablePage*>(memory_.data());
  }

 private:
  os::Fd file_;
  os::Mapping memory_;
};

/// A copy of a page; empty if the file is not a table's page of this version. All its texts end
/// with a NUL.
class TableView {
 public:
  static TableView open(const os::Fd& file);

  explicit operator bool() const noexcept { return page_ != nullptr; }
  const TablePage& page() const noexcept { return *page_; }

 private:
  std::shared_ptr<const TablePage> page_;
};

}  // namespace weft::stats
