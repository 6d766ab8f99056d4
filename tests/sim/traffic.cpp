#include "tests/sim/traffic.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "p2p/transport/sim/random.hpp"
#include "tests/pattern.hpp"
#include "tests/sim/traffic_end.hpp"

namespace weft::tests {
namespace {

using p2p::sim::Random;
using std::chrono::milliseconds;

std::vector<Edge> edges_of(const Traffic& traffic) {
  constexpr std::array<std::int64_t, 6> kSizes{16, 56, 57, 208, 1000, 3000};
  Random random(mix(traffic.seed));
  std::vector<Edge> edges;
  for (int owner = 0; owner < traffic.ranks; ++owner)
    for (int other = 0; other < traffic.ranks; ++other) {
      if (random.chance(0.5)) continue;
      Edge edge{.id = static_cast<int>(edges.size()), .owner = owner, .other = other, .spec = {}};
      edge.spec = {.name = fmt::format("edge {}", edge.id),
                   .dtype = DType::u8,
                   .shape = {kSizes[random.below(kSizes.size())]},
                   .depth = static_cast<std::uint32_t>(1 + random.below(4))};
      edge.published = !random.chance(0.7);
      if (!edge.published && random.chance(0.3)) edge.spec.placement = Placement::dynamic;
      edges.push_back(edge);
    }
  return edges;
}

}  // namespace

void run_traffic(SimJob& job, World& world, const Traffic& traffic) {
  std::vector<std::unique_ptr<End>> ends;
  for (const Edge& edge : edges_of(traffic)) {
    const bool put = !edge.published;
    if (edge.owner == world.rank())
      ends.push_back(put ? make_put_owner(job, world, traffic, edge)
                         : make_publisher(job, world, traffic, edge));
    if (edge.other == world.rank())
      ends.push_back(put ? make_put_writer(job, world, traffic, edge)
                         : make_reader(job, world, traffic, edge));
  }
  Random random(mix(traffic.seed + static_cast<std::uint64_t>(world.rank())));
  std::vector<End*> going;
  for (const auto& end : ends) going.push_back(end.get());
  while (!going.empty()) {
    const auto at = going.begin() + static_cast<std::ptrdiff_t>(random.below(going.size()));
    (*at)->step();
    if ((*at)->done()) going.erase(at);
  }
  std::vector<bool>& content = *traffic.content;
  content[static_cast<std::size_t>(world.rank())] = true;
  for (int rank = 0; rank < world.size(); ++rank)
    while (!content[static_cast<std::size_t>(rank)] && world.alive(std::span(&rank, 1)).ok())
      job.sleep(world, milliseconds(1));
}

}  // namespace weft::tests
