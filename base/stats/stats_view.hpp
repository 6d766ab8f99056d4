// Reads a rank's stats segment, from this process or another.
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

/// One edge as the stats segment shows it: the words are each whole, not of one moment.
struct ShownEdge {
  EdgeState state = EdgeState::free;
  EdgeReport report;
  std::uint64_t slot = 0;
  std::uint64_t pending = 0;
};

/// A thread that sleeps.
struct ShownWait {
  WaitAbout about;
  std::uint64_t since_ns = 0;
  std::uint64_t until_ns = 0;
};

/// A stats segment in mapped memory, a copy of one, or a recording, checked once. The rank may
/// write the first meanwhile, or be dead. Thread-safety: any number of threads.
class StatsView {
 public:
  /// Maps a file that nobody cuts off, read-only; it may be closed afterwards. Throws Error(system)
  /// where it is no stats segment of this version, or its sections don't lie within it.
  static StatsView open(const os::Fd& file);
  /// Copies what anybody may have written, and may write or cut off meanwhile: at most kMostBytes.
  /// Nothing in the copy leads outside of it, and its texts end. Throws as open().
  static StatsView copy_of(const os::Fd& file);
  static constexpr std::size_t kMostBytes = 64 << 20;
  /// A view of memory that the caller keeps.
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
  /// Those in use. An edge that changed hands while it was looked at is left out.
  std::vector<ShownEdge> edges() const;
  /// Those of the past too, as far as nothing has taken their place: what the slots of old records
  /// were called.
  std::vector<ShownEdge> all_edges() const;
  /// The longest first.
  std::vector<ShownWait> waits() const;
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
