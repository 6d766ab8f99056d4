#include "benchmarks/harness/cost.hpp"

#include <string>

namespace weft::bench {

TransferCounters cost_of(const World& world, std::string_view name) {
  const std::string several = std::string(name) + ".";
  TransferCounters sum;
  for (const EdgeReport& edge : world.report().edges)
    if (edge.slot == name || edge.slot.starts_with(several)) sum += edge.counters;
  return sum;
}

void tell_cost(const SharedMemory& bare, const TransferCounters& mine) {
  FlagLine& line = bare.flags().cost;
  line.payload[0] = mine.work_requests;
  line.payload[1] = mine.bytes_copied;
  raise_to(line, line.sequence.load(std::memory_order_relaxed) + 1);
}

void add_cost(RunRow& row, const SharedMemory& bare, const TransferCounters& mine,
              std::uint64_t times) {
  await_all(bare.partners(), &FlagArea::cost, times, bare.idle());
  std::uint64_t received = 0;
  std::uint64_t copied = mine.bytes_copied;
  for (const FlagArea* partner : bare.partners()) {
    received += partner->cost.payload[0];
    copied += partner->cost.payload[1];
  }
  const auto tensors = static_cast<double>(mine.transfers);
  row.figures["sender_requests"] = static_cast<double>(mine.work_requests) / tensors;
  row.figures["receiver_requests"] =
      static_cast<double>(received) / tensors / static_cast<double>(bare.partners().size());
  row.figures["bytes_copied"] = static_cast<double>(copied);
}

}  // namespace weft::bench
