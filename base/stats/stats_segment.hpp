// The stats segment, in which a rank keeps its counters and its recorder, and lends entries for
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "base/stats/layout.hpp"

namespace weft::stats {

class StatsSegment;

struct StatsOptions {
  int rank = 0;
  int size = 1;
  std::string host{};
  std::string boot{};  ///< the kernel's boot identity
  std::string job{};   ///< the launcher's name of the job
  std::string file{};  ///< absolute path of the segment's file; empty: a memfd without a path
  bool shared = true;  ///< false: visible to this process only
  std::uint32_t records = 4096;     ///< cells of the recorder's ring; a power of two
  std::uint32_t max_edges = 32768;  ///< further edges are counted, not shown
  std::uint32_t nodes = 0;          ///< entries for nodes of graphs; further nodes have no name
  /// Asked before memory is allocated: true if this many more bytes are allowed. Empty: always.
  std::function<bool(std::size_t)> may_grow{};
};

/// The initial content of an edge's entry.
struct EdgeAbout {
  std::string_view name;
  std::uint64_t slot = 0;
  Role role = Role::puts;
  EdgeState state = EdgeState::live;
  std::string_view fabric{};
  int peer = -1;
};

/// A slot end's entry in the stats segment, returned on destruction. If the segment has no free
/// entry, the counters lie in memory that only this process sees. Thread-safety: each counter has
/// one writer at a time; everything else any thread.
class EdgeRow {
 public:
  /// Throws std::bad_alloc.
  EdgeRow(std::shared_ptr<StatsSegment> stats, const EdgeAbout& about);
  EdgeRow(const EdgeRow&) = delete;
  EdgeRow& operator=(const EdgeRow&) = delete;
  ~EdgeRow();

  EdgeCounters& counters() noexcept { return entry_->counters; }
  GpuCounters& gpu_counters() noexcept { return entry_->gpu_counters; }
  /// All of both.
  TransferCounters read_counters() const noexcept { return entry_->read_counters(); }
  void set_state(EdgeState state) noexcept { entry_->state.store(state); }
  void set_peer(int peer) noexcept { entry_->peer.store(peer); }
  void set_role(Role role) noexcept { entry_->role.store(static_cast<std::uint32_t>(role)); }
  void set_fabric(std::string_view name) noexcept { entry_->fabric.set(name); }
  /// The number of operations not begun yet.
  Word& pending() noexcept { return entry_->pending; }
  bool shown() const noexcept { return hidden_ == nullptr; }

 private:
  std::shared_ptr<StatsSegment> stats_;
  std::unique_ptr<EdgeEntry> hidden_;
  EdgeEntry* entry_ = nullptr;
};

/// A sealed memfd, which has no name in any file system and lives as long as a process holds its
/// descriptor. With StatsOptions::file, the segment is that file instead, which outlives a rank
/// that dies and is removed by one that ends in order. Pages are allocated before they are touched.
/// If the memfd can't be had (descriptors, RLIMIT_FSIZE, memory), the rank continues with a segment
/// that no other process sees. Thread-safety: any thread.
class StatsSegment {
 public:
  /// Throws Error(system, exhausted) if there is not even memory for a hidden segment.
  static std::shared_ptr<StatsSegment> create(StatsOptions options);
  ~StatsSegment();
  StatsSegment(const StatsSegment&) = delete;
  StatsSegment& operator=(const StatsSegment&) = delete;

  /// Why other processes can't see the segment; empty if they can.
  const std::string& hidden_because() const noexcept { return hidden_because_; }
  /// The segment's file; empty if hidden.
  const os::Fd& file() const noexcept { return file_; }

  PathEntry& path(int peer) noexcept { return at<PathEntry>(SectionIndex::paths)[peer]; }
  RingState& ring_state() noexcept { return *at<RingState>(SectionIndex::recorder); }
  std::span<Record> ring() noexcept {
    return {at<Record>(SectionIndex::ring), section(SectionIndex::ring).capacity};
  }
  std::span<WaitEntry> waits() noexcept {
    return {at<WaitEntry>(SectionIndex::waits), section(SectionIndex::waits).capacity};
  }
  std::span<FailureEntry> failures() noexcept {
    return {at<FailureEntry>(SectionIndex::failures), section(SectionIndex::failures).capacity};
  }
  /// A number for the records of an edge that is no slot's.
  std::uint64_t other_number() noexcept { return kOtherNumbers + others_.fetch_add(1); }
  /// Number of connections that did not come from a rank of this job.
  Word& rejected_connections() noexcept { return totals().rejected_connections; }
  std::span<const std::byte> bytes() const noexcept { return {memory_.data(), memory_.bytes()}; }

 private:
  friend class EdgeRow;
  friend class ExecutorRow;
  explicit StatsSegment(StatsOptions options);
  void map();
  os::Fd make_file() const;
  void remove_file() noexcept;
  void describe();
  /// Null if no entry is free and the segment can't grow.
  EdgeEntry* take_entry() noexcept;
  bool grow() noexcept;
  /// The index of a node's entry; their number if all are taken. Requires `mutex_`.
  std::size_t take_node() noexcept;
  void give_back(EdgeEntry& entry) noexcept;

  Header& header() noexcept { return *reinterpret_cast<Header*>(memory_.data()); }
  Section& section(SectionIndex index) noexcept {
    return header().sections[static_cast<std::size_t>(index)];
  }
  template <typename Entry>
  Entry* at(SectionIndex index) noexcept {
    return reinterpret_cast<Entry*>(memory_.data() + section(index).offset);
  }
  Totals& totals() noexcept { return *at<Totals>(SectionIndex::totals); }

  const StatsOptions options_;
  os::Fd file_;
  os::Mapping memory_;
  std::string hidden_because_;
  std::atomic<std::uint64_t> others_{1};
  std::mutex mutex_;           ///< guards the following members
  std::size_t populated_ = 0;  ///< bytes of the file whose pages exist
  std::uint32_t used_ = 0;     ///< edge entries taken at least once
  std::vector<EdgeEntry*> free_;
  std::vector<bool> nodes_taken_;
  std::size_t next_node_ = 0;  ///< the entry that is free for longest is reused last
  std::uint64_t last_node_number_ = 0;
};

}  // namespace weft::stats
