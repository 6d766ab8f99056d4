#include "runtime/dataflow/execute/make_report.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "runtime/dataflow/graph/plan_dot.hpp"
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

ExecutorReport make_report(const World& world, const Plan& plan, const Ends& ends,
                           const Activity& activity) {
  ExecutorReport report{
      .rank = world.rank(), .counters = activity.counters(), .edges = {}, .sites = {}};
  const Report reported = world.report();
  std::map<std::pair<std::string, Role>, const EdgeReport*> slots;
  for (const EdgeReport& one : reported.edges) slots[{one.slot, one.role}] = &one;
  std::map<int, std::string> fabrics;
  for (const PathReport& path : reported.paths) fabrics[path.peer] = path.fabric;
  for (std::size_t i = 0; i < plan.edges.size(); ++i) {
    const Edge& edge = plan.edges[i];
    if (edge.from != world.rank() && edge.to != world.rank()) continue;
    const bool sends = edge.from == world.rank();
    const EndCosts costs = sends ? ends.sends[i]->costs() : ends.receives[i]->costs();
    EdgeActivity one{.edge = edge,
                     .role = costs.role,
                     .fabric = fabrics[sends ? edge.to : edge.from],
                     .counters = costs.further,
                     .probes = activity.probes(i),
                     .wait = activity.wait(i)};
    if (const auto found = slots.find({costs.slot, costs.role}); found != slots.end()) {
      one.fabric = found->second->fabric;
      one.counters += found->second->counters;
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

std::string dot(const Plan& plan, std::span<const ExecutorReport> reports) {
  const auto end_of = [&](const Edge& edge, bool is_sender) -> const EdgeActivity* {
    for (const ExecutorReport& report : reports)
      if (report.rank == (is_sender ? edge.from : edge.to))
        for (const EdgeActivity& one : report.edges)
          if (one.edge.name == edge.name && one.edge.from == edge.from && one.edge.to == edge.to)
            return &one;
    return nullptr;
  };
  return draw(plan, [&](const Edge& edge) {
    const EdgeActivity* const sent = end_of(edge, true);
    const EdgeActivity* const received = end_of(edge, false);
    std::string text = planned_text(edge);
    if (const EdgeActivity* const one = received != nullptr ? received : sent; one != nullptr)
      text += fmt::format("\n{} transfers, {} bytes moved by {}", one->counters.transfers,
                          one->counters.bytes_moved, one->fabric);
    if (sent != nullptr)
      text += fmt::format("\nsender waited {:.3f} ms", Milliseconds(sent->wait).count());
    if (received != nullptr)
      text += fmt::format("\nreceiver waited {:.3f} ms", Milliseconds(received->wait).count());
    return text;
  });
}

}  // namespace weft::dataflow
