// The stats segment on which a rank keeps its counters and its recorder, and lends places for them.
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
  std::string job{};   ///< as the launcher names it
  std::string file{};  ///< the stats segment's name, if it is to have one: an absolute path
  bool shared = true;  ///< false: this process alone needs it
  std::uint32_t records = 4096;     ///< of the recorder's ring; a power of two
  std::uint32_t max_edges = 32768;  ///< further ones are counted, not shown
  /// Asked before memory is taken: may so many bytes more be had? Empty: always.
  std::function<bool(std::size_t)> may_grow{};
};

/// What an edge's entry says from the start.
struct EdgeAbout {
  std::string_view name;
  std::uint64_t slot = 0;
  Role role = Role::puts;
  EdgeState state = EdgeState::live;
  std::string_view fabric{};
  int peer = -1;
};

/// A slot end's place on the stats segment, given back with it. When the stats segment has none
/// left the counts are kept all the same, where only this process sees them. Thread-safety: each
/// counter one writer at a time; the rest any thread.
class EdgeRow {
 public:
  /// Throws std::bad_alloc.
  EdgeRow(std::shared_ptr<StatsSegment> stats, const EdgeAbout& about);
  EdgeRow(const EdgeRow&) = delete;
  EdgeRow& operator=(const EdgeRow&) = delete;
  ~EdgeRow();

  EdgeCounters& counters() noexcept { return entry_->counters; }
  void set_state(EdgeState state) noexcept { entry_->state.store(state); }
  void set_peer(int peer) noexcept { entry_->peer.store(peer); }
  void set_role(Role role) noexcept { entry_->role.store(static_cast<std::uint32_t>(role)); }
  void set_fabric(std::string_view name) noexcept { entry_->fabric.set(name); }
  /// Operations asked for and not begun.
  Word& pending() noexcept { return entry_->pending; }
  bool shown() const noexcept { return hidden_ == nullptr; }

 private:
  std::shared_ptr<StatsSegment> stats_;
  std::unique_ptr<EdgeEntry> hidden_;
  EdgeEntry* entry_ = nullptr;
};

/// A sealed memfd with no name in any file system: it goes with its rank and with who holds its
/// descriptor. With StatsOptions::file it is that file instead, which outlives a rank that dies and
/// goes with one that ends in order. Its pages exist before they are touched. Where it can't be had
/// (descriptors, RLIMIT_FSIZE, memory) the rank runs on with a stats segment that nobody else sees.
/// Thread-safety: any thread.
class StatsSegment {
 public:
  /// Throws Error(system) when there is not even memory for a hidden one.
  static std::shared_ptr<StatsSegment> create(StatsOptions options);
  ~StatsSegment();
  StatsSegment(const StatsSegment&) = delete;
  StatsSegment& operator=(const StatsSegment&) = delete;

  /// Why other processes can't see the stats segment; empty when they can.
  const std::string& hidden_because() const noexcept { return hidden_because_; }
  /// None when hidden.
  const os::Fd& file() const noexcept { return file_; }

  PathEntry& path(int peer) noexcept { return at<PathEntry>(SectionIndex::paths)[peer]; }
  RingState& ring_state() noexcept { return *at<RingState>(SectionIndex::recorder); }
  std::span<Record> ring() noexcept {
    return {at<Record>(SectionIndex::ring), section(SectionIndex::ring).capacity};
  }
  std::span<WaitEntry> waits() noexcept {
    return {at<WaitEntry>(SectionIndex::waits), section(SectionIndex::waits).capacity};
  }
  /// Connections of unauthenticated clients.
  Word& rejected_connections() noexcept { return totals().rejected_connections; }
  std::span<const std::byte> bytes() const noexcept { return {memory_.data(), memory_.bytes()}; }

 private:
  friend class EdgeRow;
  explicit StatsSegment(StatsOptions options);
  void map();
  os::Fd make_file() const;
  void remove_file() noexcept;
  void describe();
  /// Null when there is none left and none can be had.
  EdgeEntry* take_entry() noexcept;
  bool grow() noexcept;
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
  std::mutex mutex_;           ///< guards what follows
  std::size_t populated_ = 0;  ///< bytes of the file whose pages exist
  std::uint32_t used_ = 0;     ///< edge entries that were ever taken
  std::vector<EdgeEntry*> free_;
};

}  // namespace weft::stats
