#include "runtime/dataflow/execute/executor_stats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/stats/stats_view.hpp"
#include "runtime/world/services.hpp"

namespace weft::dataflow {
namespace {

std::vector<std::string> names_of(const std::vector<Instruction>& program) {
  std::vector<std::string> names;
  for (const Instruction& one : program)
    names.push_back(fmt::format("{} ({})", one.node->name, one.node->definition->name));
  return names;
}

}  // namespace

ExecutorStats::ExecutorStats(World& world, const std::string& name, const Plan& plan,
                             const std::vector<std::string>& slots,
                             const std::vector<Instruction>& program)
    : plan_(plan),
      program_(program),
      recorder_(recorder_of(world)),
      row_(stats_of(world), name,
           recorder_.records_data() ? names_of(program) : std::vector<std::string>()),
      slots_(plan.edges.size()) {
  std::map<std::string, std::uint64_t> numbers;
  for (const stats::ShownEdge& edge : stats::StatsView::of(stats_of(world)->bytes()).edges())
    numbers[edge.report.slot] = edge.slot;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (const auto found = numbers.find(slots[i]); found != numbers.end())
      slots_[i] = found->second;
}

void ExecutorStats::ended(NodeId node, int thread, Clock::time_point since) noexcept {
  if (!recorder_.records_data()) return;
  const Instruction& one = program_[static_cast<std::size_t>(node)];
  stats::Span span{
      .event = stats::Event::node_ran,
      .slot = row_.node(static_cast<std::size_t>(node)),
      .value = row_.step(),
      .started_ns = stats::ns_of(since),
      .thread = static_cast<std::uint64_t>(row_.number()) << 32U | static_cast<unsigned>(thread)};
  if (one.peer >= 0) {
    span.event = one.work == Work::send ? stats::Event::edge_sent : stats::Event::edge_received;
    span.peer = one.peer;
    span.slot = slots_[one.edge];
    span.bytes = plan_.edges[one.edge].bytes;
  }
  recorder_.data(span);
}

stats::WaitAbout ExecutorStats::awaiting(NodeId node, std::size_t more,
                                         std::optional<Clock::time_point> since) const noexcept {
  const Instruction& one = program_[static_cast<std::size_t>(node)];
  return {.operation = stats::Operation::step,
          .peer = one.peer,
          .slot = slots_[one.edge],
          .sequence = row_.step(),
          .executor = row_.number(),
          .more = static_cast<std::uint16_t>(std::min<std::size_t>(more, 0xffff)),
          .since_ns = since ? stats::ns_of(*since) : 0};
}

}  // namespace weft::dataflow
