#include "pslib/replication/holders.hpp"

#include <algorithm>

namespace weft::pslib {
namespace {

bool has(const std::vector<std::size_t>& holders, std::size_t server) {
  return std::ranges::find(holders, server) != holders.end();
}

void fill_up(std::vector<std::size_t>& holders, std::size_t home, const std::vector<bool>& live,
             std::span<const std::string> hosts, std::size_t replicas) {
  const auto is_on_new_host = [&](std::size_t server) {
    return std::ranges::none_of(holders,
                                [&](std::size_t other) { return hosts[other] == hosts[server]; });
  };
  for (const bool any_host : {false, true})
    for (std::size_t i = 0; i < hosts.size() && holders.size() < replicas; ++i) {
      const std::size_t server = (home + i) % hosts.size();
      if (live[server] && !has(holders, server) && (any_host || is_on_new_host(server)))
        holders.push_back(server);
    }
}

}  // namespace

Holders first_holders(std::span<const std::string> hosts, std::size_t shards,
                      std::size_t replicas) {
  const Holders nobody{0, std::vector<std::vector<std::size_t>>(shards)};
  return next_holders(nobody, 0, std::vector<bool>(hosts.size(), true), hosts, replicas);
}

Holders next_holders(const Holders& former, std::uint64_t epoch, const std::vector<bool>& live,
                     std::span<const std::string> hosts, std::size_t replicas) {
  Holders next{epoch, former.of_shard};
  for (std::size_t shard = 0; shard < next.of_shard.size(); ++shard) {
    auto& holders = next.of_shard[shard];
    std::erase_if(holders, [&](std::size_t server) { return !live[server]; });
    fill_up(holders, shard, live, hosts, replicas);
  }
  return next;
}

}  // namespace weft::pslib
