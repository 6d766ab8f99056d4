#include "runtime/tool/trace/recordings.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/os/fd.hpp"
#include "runtime/tool/plain_text.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

using stats::Event;
using stats::RecordedEvent;

/// Identifies a transfer at both ends: owner of the slot, peer, slot name, sequence number.
using Transfer = std::tuple<int, int, std::string, std::uint64_t>;
/// Identifies an event: index of its recording, and index in the ring.
using Place = std::pair<std::size_t, std::size_t>;

std::map<std::uint64_t, SlotEnd> slots_of(const stats::StatsView& stats) {
  std::map<std::uint64_t, SlotEnd> slots;
  for (const stats::ShownEdge& edge : stats.all_edges())
    slots[edge.slot] = {plain(edge.report.slot), edge.report.role, edge.report.peer};
  return slots;
}

std::map<std::uint64_t, std::string> nodes_of(const stats::StatsView& stats) {
  std::map<std::uint64_t, std::string> nodes;
  for (const stats::ShownNode& node : stats.nodes()) nodes[node.number] = plain(node.name);
  return nodes;
}

std::map<std::uint64_t, std::string> executors_of(const stats::StatsView& stats) {
  std::map<std::uint64_t, std::string> executors;
  for (const stats::ShownExecutor& one : stats.executors()) executors[one.number] = plain(one.name);
  return executors;
}

// Clamps a time: no clock reaches 2^60 ns, and the limit leaves room to add and subtract.
std::int64_t moment(std::uint64_t ns) {
  return static_cast<std::int64_t>(std::min(ns, std::uint64_t{1} << 60U));
}

stats::Recording ring_of(const stats::StatsView& stats) {
  stats::Recording ring = stats.recorder().all();
  for (RecordedEvent& event : ring.events) {
    event.started_ns = static_cast<std::uint64_t>(moment(event.started_ns));
    event.ended_ns = static_cast<std::uint64_t>(moment(event.ended_ns));
  }
  return ring;
}

std::int64_t at(const RecordedEvent& event, bool end) {
  return static_cast<std::int64_t>(end ? event.ended_ns : event.started_ns);
}

/// All events of one kind, by the key that they share with the events of another kind.
template <typename Key, typename KeyOf>
std::map<Key, Place> places(std::span<const LoadedRecording> recordings, Event kind,
                            const KeyOf& key_of) {
  std::map<Key, Place> found;
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    const auto& events = recordings[r].ring.events;
    for (std::size_t e = 0; e < events.size(); ++e)
      if (events[e].event == kind && !recordings[r].slot_name(events[e].slot).empty())
        found.insert_or_assign(key_of(recordings[r], events[e]), Place{r, e});
  }
  return found;
}

/// Identifies an attach. Attaches have no sequence number; those of one slot between two ranks are
/// ordered, but only the last one is certain to be the same at both ends.
using Attach = std::tuple<int, int, std::string>;  // owner, requester, slot

/// Whether what `from` gives to a collective goes to `to`.
bool contributes(const LoadedRecording& from_rank, const RecordedEvent& from,
                 const LoadedRecording& to_rank, const RecordedEvent& to) {
  const std::string_view kind = stats::collective_name(kind_of(from));
  if (kind == "broadcast" || kind == "scatter") return from_rank.rank == from.peer;
  if (kind == "reduce" || kind == "gather") return to_rank.rank == to.peer;
  return kind != "scan" || place_in_group(from) < place_in_group(to);
}

void add_contributions(std::span<const LoadedRecording> recordings, std::vector<Flow>& flows) {
  std::map<std::pair<std::string, std::uint64_t>, std::vector<Place>> calls;
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    const auto& events = recordings[r].ring.events;
    for (std::size_t e = 0; e < events.size(); ++e)
      if (events[e].event == Event::collective && !recordings[r].slot_name(events[e].slot).empty())
        calls[{recordings[r].slot_name(events[e].slot), events[e].value}].emplace_back(r, e);
  }
  const auto event = [&](const Place& place) -> const RecordedEvent& {
    return recordings[place.first].ring.events[place.second];
  };
  for (auto& [call, ranks] : calls) {
    std::vector<Place> from = ranks;
    if (ranks.size() > kMostDrawn)
      from = {*std::ranges::max_element(
          ranks, {}, [&](const Place& place) { return event(place).started_ns; })};
    for (const Place& a : from)
      for (const Place& b : ranks)
        if (a.first != b.first &&
            contributes(recordings[a.first], event(a), recordings[b.first], event(b)))
          flows.push_back({a.first, a.second, b.first, b.second});
  }
}

}  // namespace

std::string LoadedRecording::slot_name(std::uint64_t slot) const {
  const auto end = slots.find(slot);
  return slot == 0 || end == slots.end() ? "" : end->second.name;
}

std::string LoadedRecording::place_of(const RecordedEvent& event) const {
  if (event.event != Event::node_ran) return slot_name(event.slot);
  const auto node = nodes.find(event.slot);
  return node == nodes.end() ? "" : node->second;
}

LoadedRecording load_recording(const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file)
    throw Error(ErrorDetail{.code = Code::system,
                            .operation = path,
                            .message = std::strerror(errno),
                            .hint = "name files that end in .weft-recording"});
  try {
    const auto stats = stats::StatsView::copy_of(file);
    const stats::SegmentIdentity& identity = stats.identity();
    return {.path = path,
            .job = plain(identity.job.data()),
            .rank = identity.rank,
            .size = identity.size,
            .pid = identity.pid,
            .host = plain(identity.host.data()),
            .boot = plain(identity.boot.data()),
            .why = plain(stats.recorded().why.data()),
            .by_rank = stats.recorded().by_rank,
            .wall_offset_ns = moment(identity.start_monotonic_ns) - moment(identity.start_unix_ns),
            .ring = ring_of(stats),
            .slots = slots_of(stats),
            .waits = stats.waits(),
            .nodes = nodes_of(stats),
            .executors = executors_of(stats)};
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.operation = path;
    throw Error(detail);
  }
}

std::vector<Flow> find_flows(std::span<const LoadedRecording> recordings) {
  const auto by_owner = [](const LoadedRecording& r, const RecordedEvent& e) {
    return Transfer{r.rank, e.peer, r.slot_name(e.slot), e.value};
  };
  const auto by_writer = [](const LoadedRecording& r, const RecordedEvent& e) {
    return Transfer{e.peer, r.rank, r.slot_name(e.slot), e.value};
  };
  const auto published_by = [](const LoadedRecording& r, const RecordedEvent& e) {
    return Transfer{r.rank, -1, r.slot_name(e.slot), e.value};
  };
  std::vector<Flow> flows;
  const auto arrived = places<Transfer>(recordings, Event::arrived, by_owner);
  for (const auto& [key, put] : places<Transfer>(recordings, Event::put, by_writer))
    if (const auto to = arrived.find(key); to != arrived.end())
      flows.push_back({put.first, put.second, to->second.first, to->second.second});
  const auto published = places<Transfer>(recordings, Event::published, published_by);
  for (const auto& [key, view] : places<Transfer>(recordings, Event::viewed, by_writer)) {
    const auto& [owner, reader, slot, version] = key;
    if (const auto from = published.find({owner, -1, slot, version}); from != published.end())
      flows.push_back({from->second.first, from->second.second, view.first, view.second});
  }
  const auto received = places<Transfer>(recordings, Event::received, by_owner);
  for (const auto& [key, sent] : places<Transfer>(recordings, Event::sent, by_writer))
    if (const auto to = received.find(key); to != received.end())
      flows.push_back({sent.first, sent.second, to->second.first, to->second.second});
  add_contributions(recordings, flows);
  return flows;
}

std::vector<Crossing> find_crossings(std::span<const LoadedRecording> recordings) {
  std::vector<Crossing> crossings;
  const auto cross = [&](const Place& from, const Place& to) {
    const LoadedRecording& a = recordings[from.first];
    const LoadedRecording& b = recordings[to.first];
    crossings.push_back({a.boot, b.boot, at(a.ring.events[from.second], false),
                         at(b.ring.events[to.second], true)});
  };
  for (const Flow& flow : find_flows(recordings))
    cross({flow.from, flow.from_event}, {flow.to, flow.to_event});

  const auto at_asker = [](const LoadedRecording& r, const RecordedEvent& e) {
    return Attach{e.peer, r.rank, r.slot_name(e.slot)};
  };
  const auto at_owner = [](const LoadedRecording& r, const RecordedEvent& e) {
    return Attach{r.rank, e.peer, r.slot_name(e.slot)};
  };
  const auto asked = places<Attach>(recordings, Event::attach_asked, at_asker);
  const auto granted = places<Attach>(recordings, Event::attach_granted, at_asker);
  for (const auto& [key, attachment] :
       places<Attach>(recordings, Event::attachment_made, at_owner)) {
    if (const auto from = asked.find(key); from != asked.end()) cross(from->second, attachment);
    if (const auto to = granted.find(key); to != granted.end()) cross(attachment, to->second);
  }
  return crossings;
}

}  // namespace weft::tool
