// What a rank shows of a parameter server's table to any process of the same user.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "base/stats/layout.hpp"

// A memfd of one page named kTableFileName for each table, found through /proc/PID/fd; it goes with
// the table. All integers are the machine's. `magic` is stored last: who sees it sees the identity,
// which never changes. Every other word is loaded whole; two words are of two moments.
namespace weft::stats {

inline constexpr const char* kTableFileName = "weft-table";
inline constexpr std::uint64_t kTableMagic = 0x656c626174666577;  // the bytes "weftable"
inline constexpr std::uint32_t kTableVersion = 2;

/// Of this rank as a worker; its thread's line.
struct alignas(64) TableWorkerLine {
  Counter pushes;
  Counter pulls;        ///< lookups of a sparse table
  Counter rows_pushed;  ///< 0 of a dense table
  Counter rows_pulled;
  Counter bytes_pushed;
  Counter bytes_pulled;
  Counter waited_ns;  ///< in pulls, lookups and what waits for an update
  Word version;
};
static_assert(sizeof(TableWorkerLine) == 64);

/// Of a worker whose pushes are compressed; its thread's line.
struct alignas(64) TableCompressionLine {
  Word bytes_spared;   ///< of gradients, not sent; 0: nothing is compressed
  Word nanoseconds;    ///< spent in compressing
  Word residual_norm;  ///< bits of an f64: |what the last push left out|
  std::array<Word, 5> reserved;
};
static_assert(sizeof(TableCompressionLine) == 64);

/// Of this rank's shard; its thread's lines.
struct alignas(64) TableShardLines {
  Word version;
  Word requests;    ///< pushes and lookups that were taken
  Word queue;       ///< of these, not done with: they wait for others
  Counter busy_ns;  ///< in requests and updates, of a rank that only serves
  Word applied;     ///< pushes
  Word folded;
  Word dropped;
  Word bytes_read;
  Word bytes_written;
  Word memory;  ///< bytes of parameters and states; of a sparse table with its index
  Word rows;    ///< the next four are a sparse table's
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
  /// Pushes by how many versions older the values were that they were computed from.
  alignas(64) std::array<Word, kStalenessWords> staleness;
};
static_assert(sizeof(TablePage) == 1024 && offsetof(TablePage, worker) == 256);

struct TableAbout {
  std::string_view server;
  std::string_view table;
  int rank = 0;
  bool is_sparse = false;
  bool works = false;
  bool serves = false;
};

/// A table's page, which its rank writes. Where there can be no memfd, only this process sees it.
/// Thread-safety: each line one writer at a time.
class TableStats {
 public:
  /// Throws Error(system) when there is no memory.
  explicit TableStats(const TableAbout& about);

  TablePage& page() noexcept { return *reinterpret_cast<TablePage*>(memory_.data()); }
  const TablePage& page() const noexcept {
    return *reinterpret_cast<const TablePage*>(memory_.data());
  }

 private:
  os::Fd file_;
  os::Mapping memory_;
};

/// A copy of a page; none where the file holds no table's page of this version. Its texts end.
class TableView {
 public:
  static TableView open(const os::Fd& file);

  explicit operator bool() const noexcept { return page_ != nullptr; }
  const TablePage& page() const noexcept { return *page_; }

 private:
  std::shared_ptr<const TablePage> page_;
};

}  // namespace weft::stats
