// Which servers hold which shard: a pure function of the servers and of those that have died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::pslib {

/// Servers are named by their index among a table's servers.
struct ReplicaSets {
  std::uint64_t epoch = 0;
  std::vector<std::vector<std::size_t>> of_shard;  ///< in epoch 0 the home comes first

  bool operator==(const ReplicaSets&) const = default;
};

/// Shard i has its home at server i and `replicas` replicas in all: the next servers in the ring,
/// preferring hosts that hold none yet. `hosts` names every server's host.
ReplicaSets first_replica_sets(std::span<const std::string> hosts, std::size_t shards,
                               std::size_t replicas);

/// Live replicas stay, in their order; servers that replace dead ones are appended.
ReplicaSets next_replica_sets(const ReplicaSets& former, std::uint64_t epoch,
                              const std::vector<bool>& live, std::span<const std::string> hosts,
                              std::size_t replicas);

}  // namespace weft::pslib
