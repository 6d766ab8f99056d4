#include "pslib/deployment/roles.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "pslib/refusal.hpp"

namespace weft::pslib {
namespace {

bool holds(const std::vector<int>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

std::vector<int> listed(std::string_view what, const std::vector<int>& ranks, int size) {
  if (ranks.empty()) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size)
      throw Error(bad_argument("parameter server", fmt::format("{} lists rank {}", what, rank),
                               fmt::format("ranks of this world are 0 to {}", size - 1)));
    if (std::ranges::count(ranks, rank) > 1)
      throw Error(bad_argument("parameter server",
                               fmt::format("{} lists rank {} more than once", what, rank),
                               "list every rank once"));
  }
  return ranks;
}

}  // namespace

Roles::Roles(const World& world, const Options& options)
    : rank(world.rank()),
      size(world.size()),
      workers(listed("workers", options.workers, size)),
      servers(listed("servers", options.servers, size)),
      split_bytes(options.split_bytes) {
  for (int i = 0; i < size; ++i)
    if (!holds(workers, i) && !holds(servers, i))
      throw Error(
          bad_argument("parameter server",
                       fmt::format("rank {} neither works (workers [{}]) nor serves (servers [{}])",
                                   i, fmt::join(workers, ", "), fmt::join(servers, ", ")),
                       "list it as a worker, a server or both"));
}

bool Roles::works() const noexcept { return holds(workers, rank); }
bool Roles::serves() const noexcept { return holds(servers, rank); }

std::vector<int> Roles::others() const {
  std::vector<int> ranks;
  for (int i = 0; i < size; ++i)
    if (i != rank) ranks.push_back(i);
  return ranks;
}

}  // namespace weft::pslib
