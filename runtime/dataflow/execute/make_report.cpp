#include "runtime/dataflow/execute/make_report.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "runtime/dataflow/graph/quoted.hpp"

namespace weft::dataflow {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

std::string edge_json(const EdgeActivity& one) {
  const Edge& edge = one.edge;
  const TransferCounters& c = one.counters;
  return fmt::format(
      "{{\"edge\": {}, \"from\": {}, \"to\": {}, \"role\": \"{}\", \"kind\": \"{}\", \"why\": {}, "
      "\"credits\": {}, \"why_credits\": {}, \"bytes\": {}, \"fabric\": {}, \"transfers\": {}, "
      "\"bytes_moved\": {}, \"bytes_copied\": {}, \"work_requests\": {}, \"credit_writes\": {}, "
      "\"control_messages\": {}, \"registrations\": {}, \"probes\": {}, \"wait_ns\": {}}}",
      quoted(edge.name), edge.from, edge.to, weft::name(one.role), name(edge.kind),
      quoted(edge.why), edge.needs_credits, quoted(edge.why_credits), edge.bytes,
      quoted(one.fabric), c.transfers, c.bytes_moved, c.bytes_copied, c.work_requests,
      c.credit_writes, c.control_messages, c.registrations, one.probes, one.wait.count());
}

}  // namespace

ExecutorReport make_report(const World& world, const Plan& plan,
                           const std::vector<std::string>& slots, const Activity& activity) {
  ExecutorReport report{
      .rank = world.rank(), .counters = activity.counters(), .edges = {}, .sites = {}};
  std::map<std::pair<std::string, Role>, EdgeReport> ends;
  for (EdgeReport& one : world.report().edges) ends[{one.slot, one.role}] = std::move(one);
  for (std::size_t i = 0; i < plan.edges.size(); ++i) {
    const Edge& edge = plan.edges[i];
    if (edge.from != world.rank() && edge.to != world.rank()) continue;
    EdgeActivity one{.edge = edge,
                     .role = edge.from == world.rank() ? Role::puts : Role::receives,
                     .fabric = {},
                     .counters = {},
                     .probes = activity.probes(i),
                     .wait = activity.wait(i)};
    if (const auto found = ends.find({slots[i], one.role}); found != ends.end()) {
      one.fabric = found->second.fabric;
      one.counters = found->second.counters;
    }
    report.edges.push_back(std::move(one));
  }
  return report;
}

std::string ExecutorReport::text() const {
  std::string text;
  for (const EdgeActivity& one : edges) {
    const TransferCounters& c = one.counters;
    text += fmt::format(
        "{} {} from rank {} to {}: {} ({}), {} ({}), by {}: {} transfers, {} bytes moved, {} "
        "copied, {} work requests, {} credits, {} registrations, {} probes, {:.3f} ms of wait\n",
        weft::name(one.role), one.edge.name, one.edge.from, one.edge.to, name(one.edge.kind),
        one.edge.why, one.edge.needs_credits ? "credits" : "no credits", one.edge.why_credits,
        one.fabric, c.transfers, c.bytes_moved, c.bytes_copied, c.work_requests, c.credit_writes,
        c.registrations, one.probes, Milliseconds(one.wait).count());
  }
  text += fmt::format("rank {}: {} steps, {} nodes, {} probes, {} sleeps\n", rank, counters.steps,
                      counters.nodes, counters.probes, counters.sleeps);
  return sites.sites.empty() ? text : text + sites.text();
}

std::string ExecutorReport::json() const {
  std::string text = fmt::format(
      "{{\"version\": 1, \"rank\": {}, \"steps\": {}, \"nodes\": {}, \"probes\": {}, \"sleeps\": "
      "{}, "
      "\"edges\": [",
      rank, counters.steps, counters.nodes, counters.probes, counters.sleeps);
  for (std::size_t i = 0; i < edges.size(); ++i)
    text += (i == 0 ? "\n " : ",\n ") + edge_json(edges[i]);
  return text + "], \"tracing\": " + sites.json() + "}\n";
}

}  // namespace weft::dataflow
