// Who holds which shard: a pure function of the servers, and of who of them has died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::pslib {

/// Servers are named by their place among a table's servers.
struct ReplicaSets {
  std::uint64_t epoch = 0;
  std::vector<std::vector<std::size_t>> of_shard;  ///< the first of epoch 0 is the shard's home

  bool operator==(const ReplicaSets&) const = default;
};

/// Shard i at home at server i, `replicas` replicas each: the next servers in a ring, those on
/// hosts that have none yet first. `hosts` has every server's.
ReplicaSets first_replica_sets(std::span<const std::string> hosts, std::size_t shards,
                               std::size_t replicas);

/// Those that live stay, in their order; servers that take a dead one's place come behind them.
ReplicaSets next_replica_sets(const ReplicaSets& former, std::uint64_t epoch,
                              const std::vector<bool>& live, std::span<const std::string> hosts,
                              std::size_t replicas);

}  // namespace weft::pslib
