#include "pslib/replication/replica_sets.hpp"

#include <algorithm>

namespace weft::pslib {
namespace {

bool has(const std::vector<std::size_t>& replica_sets, std::size_t server) {
  return std::ranges::find(replica_sets, server) != replica_sets.end();
}

void fill_up(std::vector<std::size_t>& replica_sets, std::size_t home,
             const std::vector<bool>& live, std::span<const std::string> hosts,
             std::size_t replicas) {
  const auto is_on_new_host = [&](std::size_t server) {
    return std::ranges::none_of(replica_sets,
                                [&](std::size_t other) { return hosts[other] == hosts[server]; });
  };
  for (const bool any_host : {false, true})
    for (std::size_t i = 0; i < hosts.size() && replica_sets.size() < replicas; ++i) {
      const std::size_t server = (home + i) % hosts.size();
      if (live[server] && !has(replica_sets, server) && (any_host || is_on_new_host(server)))
        replica_sets.push_back(server);
    }
}

}  // namespace

ReplicaSets first_replica_sets(std::span<const std::string> hosts, std::size_t shards,
                               std::size_t replicas) {
  const ReplicaSets nobody{0, std::vector<std::vector<std::size_t>>(shards)};
  return next_replica_sets(nobody, 0, std::vector<bool>(hosts.size(), true), hosts, replicas);
}

ReplicaSets next_replica_sets(const ReplicaSets& former, std::uint64_t epoch,
                              const std::vector<bool>& live, std::span<const std::string> hosts,
                              std::size_t replicas) {
  ReplicaSets next{epoch, former.of_shard};
  for (std::size_t shard = 0; shard < next.of_shard.size(); ++shard) {
    auto& replica_sets = next.of_shard[shard];
    std::erase_if(replica_sets, [&](std::size_t server) { return !live[server]; });
    fill_up(replica_sets, shard, live, hosts, replicas);
  }
  return next;
}

}  // namespace weft::pslib
