#include "runtime/tool/trace/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace weft::tool {
namespace {

using Json = nlohmann::ordered_json;
using stats::RecordedEvent;

// Tracks have 32 bits; slots are numbered from 1.
constexpr std::uint64_t kEdges = std::uint64_t{1} << 30U;
constexpr std::uint64_t kThreads = 2 * kEdges;

bool is_of_edge(const RecordedEvent& event) {
  return event.event == stats::Event::edge_sent || event.event == stats::Event::edge_received;
}

constexpr std::uint64_t kShortest = 1000;  ///< ns: shorter events would be invisible

class Writer {
 public:
  Writer(std::ostream& out, std::span<const LoadedRecording> recordings,
         const std::map<std::string, Alignment>& clocks)
      : out_(out), recordings_(recordings), clocks_(clocks) {
    for (const LoadedRecording& recording : recordings)
      for (const RecordedEvent& event : recording.ring.events)
        zero_ = std::min(zero_, aligned(recording, event.started_ns));
  }

  void run() {
    out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    for (const LoadedRecording& recording : recordings_) name_tracks(recording);
    for (const LoadedRecording& recording : recordings_)
      for (const RecordedEvent& event : recording.ring.events) put_event(recording, event);
    std::uint64_t id = 0;
    for (const Flow& flow : find_flows(recordings_)) put_flow(flow, ++id);
    out_ << "\n]}\n";
  }

 private:
  std::int64_t aligned(const LoadedRecording& recording, std::uint64_t moment) const {
    const auto clock = clocks_.find(recording.boot);
    return static_cast<std::int64_t>(moment) + (clock == clocks_.end() ? 0 : clock->second.add_ns);
  }
  double microseconds(const LoadedRecording& recording, std::uint64_t moment) const {
    return static_cast<double>(aligned(recording, moment) - zero_) / 1e3;
  }
  /// Track of an event: one per slot, one per thread of an executor, one per edge of a graph, whose
  /// sends and receives may overlap with the slot's events; 0 for all others.
  static std::uint64_t track(const LoadedRecording& recording, const RecordedEvent& event) {
    if (event.event == stats::Event::node_ran)
      return kThreads + (std::uint64_t{executor_of(event)} << 12U) + (thread_of(event) & 0xfffU);
    if (is_of_edge(event)) return kEdges + (event.slot & (kEdges - 1));
    return recording.slots.contains(event.slot) ? event.slot : 0;
  }

  void put(const Json& item) {
    out_ << (first_ ? "" : ",\n") << item.dump(-1, ' ', false, Json::error_handler_t::replace);
    first_ = false;
  }

  void name_tracks(const LoadedRecording& recording) {
    const auto meta = [&](const char* what, std::uint64_t track, const std::string& name) {
      put({{"ph", "M"},
           {"pid", recording.rank},
           {"tid", track},
           {"name", what},
           {"args", {{"name", name}}}});
    };
    meta("process_name", 0,
         fmt::format("rank {} ({}, pid {})", recording.rank, recording.host, recording.pid));
    put({{"ph", "M"},
         {"pid", recording.rank},
         {"tid", 0},
         {"name", "process_sort_index"},
         {"args", {{"sort_index", recording.rank}}}});
    meta("thread_name", 0, "rank");
    for (const auto& [number, slot] : recording.slots)
      meta("thread_name", number,
           number < stats::kOtherNumbers || slot.role == stats::kCalls
               ? fmt::format("{} ({})", slot.name, stats::role_name(slot.role))
               : fmt::format("{} {} rank {}", slot.name, slot.role == Role::puts ? "to" : "from",
                             slot.peer));
    std::map<std::uint64_t, std::string> tracks;
    for (const RecordedEvent& event : recording.ring.events) {
      if (is_of_edge(event))
        tracks[track(recording, event)] = "edge " + recording.slot_name(event.slot);
      const auto executor = recording.executors.find(executor_of(event));
      if (event.event == stats::Event::node_ran)
        tracks[track(recording, event)] = fmt::format(
            "{} thread {}", executor == recording.executors.end() ? "graph" : executor->second,
            thread_of(event));
    }
    for (const auto& [number, track] : tracks) meta("thread_name", number, track);
  }

  void put_event(const LoadedRecording& recording, const RecordedEvent& event) {
    std::string label(stats::name(event.event));
    if (event.operation != stats::Operation::none)
      label = fmt::format("{} {}", label, stats::name(event.operation));
    if (event.peer >= 0) label += fmt::format(" rank {}", event.peer);
    if (event.event == stats::Event::node_ran && !recording.place_of(event).empty())
      label = recording.place_of(event);
    if (event.event == stats::Event::collective)
      label = fmt::format("{} {}", stats::collective_name(kind_of(event)), event.value);
    const bool has_step = event.event == stats::Event::node_ran || is_of_edge(event);
    Json args = {{has_step ? "step" : "value", event.value}};
    if (event.peer >= 0) args["peer"] = event.peer;
    if (event.bytes != 0) args["bytes"] = event.bytes;
    if (event.code != Code::ok) args["code"] = weft::name(event.code);
    Json item = {{"name", label},
                 {"cat", stats::name(event.event)},
                 {"ph", "X"},
                 {"pid", recording.rank},
                 {"tid", track(recording, event)},
                 {"ts", microseconds(recording, event.started_ns)}};
    if (event.ended_ns > event.started_ns)
      item["dur"] = static_cast<double>(event.ended_ns - event.started_ns) / 1e3;
    else
      item["dur"] = static_cast<double>(kShortest) / 1e3;
    item["args"] = std::move(args);
    put(item);
  }

  void put_flow(const Flow& flow, std::uint64_t id) {
    const LoadedRecording& from = recordings_[flow.from];
    const LoadedRecording& to = recordings_[flow.to];
    const RecordedEvent& begun = from.ring.events[flow.from_event];
    const RecordedEvent& ended = to.ring.events[flow.to_event];
    put({{"name", "transfer"},
         {"cat", "transfer"},
         {"ph", "s"},
         {"id", id},
         {"pid", from.rank},
         {"tid", track(from, begun)},
         {"ts", microseconds(from, begun.started_ns)}});
    put({{"name", "transfer"},
         {"cat", "transfer"},
         {"ph", "f"},
         {"bp", "e"},
         {"id", id},
         {"pid", to.rank},
         {"tid", track(to, ended)},
         {"ts", microseconds(to, ended.ended_ns)}});
  }

  std::ostream& out_;
  std::span<const LoadedRecording> recordings_;
  const std::map<std::string, Alignment>& clocks_;
  std::int64_t zero_ = std::numeric_limits<std::int64_t>::max();
  bool first_ = true;
};

}  // namespace

void write_chrome_trace(std::ostream& out, std::span<const LoadedRecording> recordings,
                        const std::map<std::string, Alignment>& clocks) {
  Writer(out, recordings, clocks).run();
}

}  // namespace weft::tool
