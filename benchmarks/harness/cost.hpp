// The cost of the measured slots over all ranks, from weft's own counters.
#pragma once

#include <cstdint>
#include <string_view>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/run_protocol.hpp"
#include "weft/report.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Cost so far of this rank's ends of the slots named `name` or "`name`.*".
TransferCounters cost_of(const World& world, std::string_view name);

/// Follower: sends its cost to the leader. The number of calls is the leader's `times`.
void tell_cost(const SharedMemory& bare, const TransferCounters& mine);

/// Leader: waits until every follower has sent its cost `times` times, then adds to a row
/// "sender_requests" and "receiver_requests" (work requests per tensor sent) and "bytes_copied".
void add_cost(RunRow& row, const SharedMemory& bare, const TransferCounters& mine,
              std::uint64_t times);

}  // namespace weft::bench
