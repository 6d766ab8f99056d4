// guide_samples FOLDER: the guide's samples as one job of four ranks.
#include <cstdio>

#include "tests/guide/phrases.hpp"
#include "tests/guide/samples.hpp"
#include "weft/weft.hpp"

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  weft::World world = weft::World::join();
  if (world.size() != 4) return 2;
  for (auto* const sample : {&halo_exchange, &sum_over_ranks, &mean_by_a_plan, &groups, &messages,
                             &dynamic_slot, &published_slot, &rendezvous, &every_consistency,
                             &sparse_rows, &timeouts, &mismatch, &any_order})
    sample(world);
  checkpoints(world, argv[1]);
  phrases(world);
  world.leave().or_throw();
  std::printf("rank %d has run every sample\n", world.rank());
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
