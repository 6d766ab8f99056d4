// What the measured slots cost by weft's own counters, on all ranks together.
#pragma once

#include <cstdint>
#include <string_view>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/run_protocol.hpp"
#include "weft/report.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// What this rank's ends of the slots that are called `name`, or begin with it and a dot, have cost
/// so far.
TransferCounters cost_of(const World& world, std::string_view name);

/// Follower: tells its leader. Once more than the last time is the leader's `times`.
void tell_cost(const SharedMemory& bare, const TransferCounters& mine);

/// Leader: adds "sender_requests" and "receiver_requests" (work requests by tensor of its own) and
/// "bytes_copied" to a row, once every follower has told its cost so many times.
void add_cost(RunRow& row, const SharedMemory& bare, const TransferCounters& mine,
              std::uint64_t times);

}  // namespace weft::bench
