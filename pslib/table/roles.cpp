#include "pslib/table/roles.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "base/config.hpp"
#include "base/fail.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib {
namespace {

constexpr const char* kOperation = "parameter server";

// Creates the error for invalid options, or for an invalid environment variable.
using Refusal = std::function<ErrorDetail(std::string message, std::string hint)>;

bool holds(const std::vector<int>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

// True if `rank` is the highest of several ranks on its host.
bool serves_its_host(const World& world, const std::vector<int>& members, int rank) {
  bool has_another = false;
  for (const int i : members) {
    if (i == rank || world.host(i) != world.host(rank)) continue;
    if (i > rank) return false;
    has_another = true;
  }
  return has_another;
}

bool any_host_has_two(const World& world, const std::vector<int>& members) {
  return std::ranges::any_of(members,
                             [&](int rank) { return serves_its_host(world, members, rank); });
}

std::vector<int> listed(std::string_view what, const std::vector<int>& ranks,
                        const std::vector<int>& members, int size) {
  if (ranks.empty()) return members;
  for (const int rank : ranks) {
    if (!holds(members, rank))
      throw_error(Code::bad_argument, kOperation, fmt::format("{} lists rank {}", what, rank),
                  members.size() == static_cast<std::size_t>(size)
                      ? fmt::format("ranks of this world are 0 to {}", size - 1)
                      : fmt::format("ranks of this group are {}", fmt::join(members, ", ")));
    if (std::ranges::count(ranks, rank) > 1)
      throw_error(Code::bad_argument, kOperation,
                  fmt::format("{} lists rank {} more than once", what, rank),
                  "list every rank once");
  }
  return ranks;
}

struct Deployment {
  enum class Kind : std::uint8_t { listed, highest, per_host };
  Kind kind = Kind::listed;
  int servers = 0;  // the dedicated ones, taken from the highest ranks
};

Deployment by_number(int servers, int size, const Refusal& refuse) {
  if (servers < 1 || servers >= size)
    throw Error(refuse(fmt::format("{} dedicated servers among {} ranks", servers, size),
                       "leave at least one rank to serve and one to work"));
  return {Deployment::Kind::highest, servers};
}

Deployment by_host(const World& world, const std::vector<int>& members, const Refusal& refuse) {
  if (!any_host_has_two(world, members))
    throw Error(refuse("one server per host, but no host has two ranks",
                       "start several ranks on each host, or list the servers"));
  return {Deployment::Kind::per_host, 0};
}

Deployment from_environment(World& world, const std::vector<int>& members) {
  const std::string value = server_settings(world).servers;
  const Refusal refuse = [&](const std::string& message, std::string hint) {
    return error_detail(Code::bad_config, kOperation,
                        fmt::format("WEFT_PS_SERVERS=\"{}\": {}", value, message), std::move(hint));
  };
  if (value == "all") return {};
  const int size = static_cast<int>(members.size());
  if (value == "host") return by_host(world, members, refuse);
  const auto number = parse_integer(value);
  if (!number || *number > size)
    throw Error(refuse("no way to choose servers among " + std::to_string(size) + " ranks",
                       "accepted: all, host, or a number of ranks below the job's"));
  return by_number(static_cast<int>(*number), size, refuse);
}

Deployment deployment(World& world, const std::vector<int>& members, const Options& options) {
  const Refusal refuse = [](std::string message, std::string hint) {
    return bad_argument(kOperation, std::move(message), std::move(hint));
  };
  const bool lists = !options.workers.empty() || !options.servers.empty();
  if (lists + (options.dedicated_servers != 0) + options.one_server_per_host > 1)
    throw Error(
        refuse("lists of ranks, dedicated_servers and one_server_per_host exclude each other",
               "give one of them"));
  if (lists) return {};
  if (options.dedicated_servers != 0)
    return by_number(options.dedicated_servers, static_cast<int>(members.size()), refuse);
  if (options.one_server_per_host) return by_host(world, members, refuse);
  return from_environment(world, members);
}

std::size_t count_replicas(World& world, const Options& options, std::size_t servers) {
  const bool is_option = options.replicas != 0;
  const int replicas = is_option ? options.replicas : server_settings(world).replicas;
  if (replicas >= 1 && static_cast<std::size_t>(replicas) <= servers)
    return static_cast<std::size_t>(replicas);
  throw_error(is_option ? Code::bad_argument : Code::bad_config, kOperation,
              fmt::format("{}{} replicas of each shard on {} servers",
                          is_option ? "" : "WEFT_PS_REPLICAS: ", replicas, servers),
              "a replica needs a server of its own: let more ranks serve, or ask for fewer");
}

}  // namespace

Roles::Roles(World& world, const Group& of, const Options& options)
    : rank(world.rank()),
      world_size(static_cast<std::size_t>(world.size())),
      group(of),
      members(of.members().begin(), of.members().end()),
      split_bytes(options.split_bytes) {
  std::ranges::sort(members);
  if (!holds(members, rank))
    throw_error(Code::bad_argument, kOperation,
                fmt::format("rank {} is no member of the group", rank),
                "only members of a group take part");
  if (members.back() >= world.size())
    throw_error(Code::bad_argument, kOperation,
                fmt::format("the group has rank {}, and this world has {} ranks", members.back(),
                            world.size()),
                "give a group of the same world");
  const Deployment how = deployment(world, members, options);
  switch (how.kind) {
    case Deployment::Kind::listed:
      workers = listed("workers", options.workers, members, world.size());
      servers = listed("servers", options.servers, members, world.size());
      break;
    case Deployment::Kind::highest: {
      const auto first = members.end() - how.servers;
      workers.assign(members.begin(), first);
      servers.assign(first, members.end());
      break;
    }
    case Deployment::Kind::per_host:
      for (const int i : members)
        (serves_its_host(world, members, i) ? servers : workers).push_back(i);
      break;
  }
  for (const int i : members)
    if (!holds(workers, i) && !holds(servers, i))
      throw_error(Code::bad_argument, kOperation,
                  fmt::format("rank {} neither works (workers [{}]) nor serves (servers [{}])", i,
                              fmt::join(workers, ", "), fmt::join(servers, ", ")),
                  "list it as a worker, a server or both");
  for (const int server : servers) server_hosts.push_back(world.host(server));
  replicas = count_replicas(world, options, servers.size());
}

bool Roles::works() const noexcept { return holds(workers, rank); }
bool Roles::serves() const noexcept { return holds(servers, rank); }

std::string Roles::suffix() const {
  const bool is_whole = group.epoch() == 0 && members.size() == world_size;
  return is_whole ? "" : fmt::format("@{:016x}", group.id());
}

std::vector<int> Roles::others() const {
  std::vector<int> ranks = members;
  std::erase(ranks, rank);
  return ranks;
}

}  // namespace weft::pslib
