// Each rank has the number of descriptors that the docs give: kDescriptors, and kDescriptorsPerRank
// for each rank of the host. Some that the launcher opens may be missing.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <thread>

#include "runtime/world/descriptor_need.hpp"
#include "weft/collective.hpp"
#include "weft/world.hpp"

namespace {

int count_descriptors() {
  namespace fs = std::filesystem;
  const auto all = fs::directory_iterator("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all))) - 1;  // not the folder's own
}

}  // namespace

int main() {
  using namespace weft::detail;
  const int inherited = count_descriptors();
  weft::World world = weft::World::join();
  const int told = kDescriptors + kDescriptorsPerRank * world.size();
  int own = 0;
  // Peers' stats segments arrive after the join.
  for (const auto end = weft::Deadline::after(std::chrono::seconds(10)); !end.passed();) {
    own = count_descriptors() - inherited + kDescriptorsOfEveryProcess;
    if (own >= told - kDescriptorsOfTheLauncher) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::printf("rank %d: %d descriptors, told %d\n", world.rank(), own, told);
  const bool right = own <= told && own >= told - kDescriptorsOfTheLauncher;
  // All ranks have counted before one leaves.
  if (!weft::Collectives::open(world).run(weft::barrier()).ok()) return 1;
  return world.leave(weft::Deadline::after(std::chrono::seconds(20))).ok() && right ? 0 : 1;
}
