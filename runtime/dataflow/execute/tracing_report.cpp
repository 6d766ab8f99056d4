// The report of a TracingAllocator as text and JSON.
#include <fmt/format.h>

#include "runtime/dataflow/graph/quoted.hpp"
#include "weft/tracing.hpp"

namespace weft::dataflow {

std::string_view name(TracingMode mode) noexcept {
  switch (mode) {
    case TracingMode::sites:
      return "sites";
    case TracingMode::cut_edges:
      return "cut_edges";
    case TracingMode::off:
      return "off";
  }
  return "?";
}

std::string TracingReport::text() const {
  std::string text;
  for (const TracedSite& site : sites)
    if (site.sent_in != 0)
      text += fmt::format(
          "allocation {} of {}: sent since step {}, {} allocations, {} copies of {} bytes\n",
          site.allocation, dataflow::quoted(site.node), site.sent_in, site.allocations, site.copies,
          site.bytes_copied);
  const TracingCounters& c = counters;
  return text + fmt::format(
                    "rank {}, mode {}: {} steps, {} of {} sites sent, {} of them late, {} plain "
                    "and {} registered allocations, {} registrations, {} sends, {} copies of {} "
                    "bytes\n",
                    rank, name(mode), c.steps, c.sent_sites, c.sites, c.late_sites,
                    c.plain_allocations, c.registered_allocations, c.registrations, c.sends,
                    c.copies, c.bytes_copied);
}

std::string TracingReport::json() const {
  const TracingCounters& c = counters;
  std::string text = fmt::format(
      "{{\"version\": 1, \"rank\": {}, \"mode\": \"{}\", \"steps\": {}, \"plain_allocations\": {}, "
      "\"registered_allocations\": {}, \"sends\": {}, \"copies\": {}, \"bytes_copied\": {}, "
      "\"registrations\": {}, \"sent_sites\": {}, \"late_sites\": {}, \"sites\": [",
      rank, name(mode), c.steps, c.plain_allocations, c.registered_allocations, c.sends, c.copies,
      c.bytes_copied, c.registrations, c.sent_sites, c.late_sites);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const TracedSite& site = sites[i];
    text += fmt::format(
        "{}{{\"node\": {}, \"allocation\": {}, \"allocations\": {}, \"copies\": {}, "
        "\"bytes_copied\": {}, \"sent_in\": {}}}",
        i == 0 ? "\n " : ",\n ", dataflow::quoted(site.node), site.allocation, site.allocations,
        site.copies, site.bytes_copied, site.sent_in);
  }
  return text + "]}\n";
}

}  // namespace weft::dataflow
