// Loads recordings and matches their events across ranks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/stats/stats_view.hpp"
#include "runtime/tool/trace/clocks.hpp"

namespace weft::tool {

/// A slot end, by the number that a rank's events use for it.
struct SlotEnd {
  std::string name;
  Role role = Role::puts;
  int peer = -1;
};

struct LoadedRecording {
  std::string path;
  std::string job;
  int rank = -1;
  int size = 0;
  int pid = 0;
  std::string host;
  std::string boot;
  std::string why;
  int by_rank = -1;
  std::int64_t wall_offset_ns = 0;  ///< CLOCK_MONOTONIC - CLOCK_REALTIME
  stats::Recording ring;
  std::map<std::uint64_t, SlotEnd> slots;
  std::vector<stats::ShownWait> waits;
  std::map<std::uint64_t, std::string> nodes;      ///< of graphs, by number
  std::map<std::uint64_t, std::string> executors;  ///< by number of their entry

  std::string slot_name(std::uint64_t slot) const;
  /// The name of the event's slot or node; empty if it has none, or none is known.
  std::string place_of(const stats::RecordedEvent& event) const;
};

/// The thread of its executor that ran a node, and the number of the executor's entry.
constexpr std::uint32_t thread_of(const stats::RecordedEvent& event) noexcept {
  return static_cast<std::uint32_t>(event.thread);
}
constexpr std::uint8_t executor_of(const stats::RecordedEvent& event) noexcept {
  return static_cast<std::uint8_t>(event.thread >> 32U);
}

/// The number of a collective's kind, and the place of its rank in the group.
constexpr std::uint8_t kind_of(const stats::RecordedEvent& event) noexcept {
  return static_cast<std::uint8_t>(event.thread);
}
constexpr std::uint32_t place_in_group(const stats::RecordedEvent& event) noexcept {
  return static_cast<std::uint32_t>(event.thread >> 8U & 0xffffff);
}

/// Throws Error(system), which names the file, if the file can't be read or is no recording.
LoadedRecording load_recording(const std::string& path);

/// A transfer: the event that sent it and the event that received it.
struct Flow {
  std::size_t from = 0;        ///< index of the recording
  std::size_t from_event = 0;  ///< index in its ring
  std::size_t to = 0;
  std::size_t to_event = 0;
};
/// Matches puts with their arrivals, publications with the views that read them, and messages sent
/// with those received, by slot name, ranks and sequence number; and each rank's contribution to a
/// collective with the ranks that get it. Of groups with more than kMostDrawn ranks, the last
/// contribution alone.
inline constexpr std::size_t kMostDrawn = 16;
std::vector<Flow> find_flows(std::span<const LoadedRecording> recordings);

/// All messages that are known to have gone from one rank to another: transfers, and attaches,
/// which every recording has.
std::vector<Crossing> find_crossings(std::span<const LoadedRecording> recordings);

}  // namespace weft::tool
