// A reader of stats segments, from the rank's own process or another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "base/stats/layout.hpp"
#include "base/stats/recorder.hpp"
#include "base/stats/waits.hpp"

namespace weft::stats {

/// One edge from the stats segment. Each word is consistent; together they may be of several
/// moments.
struct ShownEdge {
  EdgeState state = EdgeState::free;
  EdgeReport report;
  std::uint64_t slot = 0;
  std::uint64_t pending = 0;
};

/// A thread that waits.
struct ShownWait {
  WaitAbout about;  ///< its `details` is null
  WaitDetails details;
  std::string within;  ///< the table's call that waits; empty: none
  std::uint64_t since_ns = 0;
  std::uint64_t until_ns = 0;
};

/// An operation that has failed, and whose outcome the application has not looked at.
struct ShownFailure {
  Operation operation = Operation::none;
  int peer = -1;
  Code code = Code::ok;
  std::uint64_t slot = 0;
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  std::uint64_t since_ns = 0;
  std::string text;
};

struct ShownExecutor {
  std::uint8_t number = 0;  ///< of its entry, from 1
  std::string name;
  bool live = false;
  bool failed = false;
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
};

struct ShownNode {
  std::uint64_t number = 0;
  std::string name;
};

/// A stats segment in mapped memory, a copy of one, or a recording, validated at construction. The
/// rank may still write a mapped one, or be dead. Thread-safety: any number of threads.
class StatsView {
 public:
  /// Maps a file read-only; the caller guarantees that no process truncates it. The descriptor may
  /// be closed afterwards. Throws Error(system) if the file is not a stats segment of this version,
  /// or a section does not lie within it.
  static StatsView open(const os::Fd& file);
  /// Copies a file that any process may have written, and may write or truncate meanwhile: at most
  /// kMostBytes. Nothing in the copy refers outside it, and all its texts end with a NUL. Throws as
  /// open().
  static StatsView copy_of(const os::Fd& file);
  static constexpr std::size_t kMostBytes = 64 << 20;
  /// A view of `memory`, which the caller keeps alive.
  static StatsView of(std::span<const std::byte> memory);

  const SegmentIdentity& identity() const noexcept {
    return *at<SegmentIdentity>(SectionIndex::identity);
  }
  const Recorded& recorded() const noexcept { return *at<Recorded>(SectionIndex::recorded); }
  std::string_view schema() const noexcept {
    return {at<char>(SectionIndex::schema), section(SectionIndex::schema).capacity - 1};
  }
  const Totals& totals() const noexcept { return *at<Totals>(SectionIndex::totals); }
  std::span<const PathEntry> paths() const noexcept;
  /// The edges in use, without those that changed while they were read.
  std::vector<ShownEdge> edges() const;
  /// Also past edges whose entries were not reused: they name the slots of old records.
  std::vector<ShownEdge> all_edges() const;
  /// The current waits, the longest first.
  std::vector<ShownWait> waits() const;
  /// The oldest first.
  std::vector<ShownFailure> failures() const;
  /// Also those that are gone, as long as their entries are not reused.
  std::vector<ShownExecutor> executors() const;
  std::vector<ShownNode> nodes() const;
  RecorderView recorder() const noexcept;
  std::size_t bytes() const noexcept { return bytes_.size(); }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };

  StatsView(os::Mapping memory, std::vector<Line> copy, std::span<const std::byte> bytes)
      : memory_(std::move(memory)), copy_(std::move(copy)), bytes_(bytes) {}
  void check() const;
  const Header& header() const noexcept { return *reinterpret_cast<const Header*>(bytes_.data()); }
  const Section& section(SectionIndex index) const noexcept {
    return header().sections[static_cast<std::size_t>(index)];
  }
  template <typename Entry>
  const Entry* at(SectionIndex index) const noexcept {
    return reinterpret_cast<const Entry*>(bytes_.data() + section(index).offset);
  }

  os::Mapping memory_;
  std::vector<Line> copy_;
  std::span<const std::byte> bytes_;
};

}  // namespace weft::stats
