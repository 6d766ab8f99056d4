#include "bindings/c/report_json.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "runtime/dataflow/graph/quoted.hpp"

namespace weft::c {
namespace {

std::string literal(std::string_view text) { return dataflow::quoted(text); }

/// `[a, b]` of what `text_of` makes of each of `items`.
template <typename Item, typename TextOf>
std::string list(const std::vector<Item>& items, const TextOf& text_of) {
  std::string text = "[";
  for (const Item& item : items) text += (text.size() > 1 ? ", " : "") + text_of(item);
  return text + "]";
}

std::string counters_text(const TransferCounters& c) {
  return fmt::format(
      "{{\"transfers\": {}, \"bytes_moved\": {}, \"bytes_copied\": {}, \"work_requests\": {}, "
      "\"credit_writes\": {}, \"control_messages\": {}, \"registrations\": {}, "
      "\"staged_bytes\": {}, \"device_copies\": {}, \"gpu_flushes\": {}}}",
      c.transfers, c.bytes_moved, c.bytes_copied, c.work_requests, c.credit_writes,
      c.control_messages, c.registrations, c.staged_bytes, c.device_copies, c.gpu_flushes);
}

std::string path_text(const PathReport& path) {
  return fmt::format(
      "{{\"peer\": {}, \"host\": {}, \"pid\": {}, \"fabric\": {}, \"health\": {}, \"condition\": "
      "{}, "
      "\"rails_lost\": {}, \"rails_back\": {}, \"verdicts\": {}, \"rails\": {}, \"counters\": {}}}",
      path.peer, literal(path.host), path.pid, literal(path.fabric), literal(name(path.health)),
      literal(path.condition), path.rails_lost, path.rails_back,
      list(path.verdicts,
           [](const FabricVerdict& verdict) {
             return fmt::format("{{\"fabric\": {}, \"usable\": {}, \"reason\": {}}}",
                                literal(verdict.fabric), verdict.usable, literal(verdict.reason));
           }),
      list(path.rails,
           [](const RailReport& rail) {
             return fmt::format("{{\"own\": {}, \"peer\": {}, \"up\": {}}}", literal(rail.own),
                                literal(rail.peer), rail.up);
           }),
      counters_text(path.counters));
}

std::string edge_text(const EdgeReport& edge) {
  return fmt::format(
      "{{\"peer\": {}, \"slot\": {}, \"role\": {}, \"fabric\": {}, \"way\": {}, "
      "\"reason\": {}, \"counters\": {}}}",
      edge.peer, literal(edge.slot), literal(name(edge.role)), literal(edge.fabric),
      literal(edge.way), literal(edge.reason), counters_text(edge.counters));
}

std::string arena_text(const ArenaReport& arena) {
  return fmt::format(
      "{{\"sort\": {}, \"chunks\": {}, \"reserved_bytes\": {}, \"used_bytes\": {}, "
      "\"peak_bytes\": {}, \"quarantined_bytes\": {}, \"largest_free_bytes\": {}, "
      "\"allocations\": {}, \"huge_page_bytes\": {}}}",
      literal(arena.sort), arena.chunks, arena.reserved_bytes, arena.used_bytes, arena.peak_bytes,
      arena.quarantined_bytes, arena.largest_free_bytes, arena.allocations, arena.huge_page_bytes);
}

}  // namespace

std::string report_json(const Report& report, int rank, int size) {
  return fmt::format(
      "{{\"version\": 1, \"rank\": {}, \"size\": {}, \"paths\": {}, \"edges\": {}, \"arenas\": {}, "
      "\"rejected_connections\": {}}}",
      rank, size, list(report.paths, path_text), list(report.edges, edge_text),
      list(report.arenas, arena_text), report.rejected_connections);
}

}  // namespace weft::c
