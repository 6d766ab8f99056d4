// Rank 1 never joins. The others print how their join ended: "joined", or the error and its time.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "weft/world.hpp"

int main() {
  using namespace weft;
  const char* rank = std::getenv("PMIX_RANK");
  if (rank == nullptr) {
    std::fprintf(stderr, "this program runs under mpirun\n");
    return 1;
  }
  if (std::string(rank) == "1") {
    std::this_thread::sleep_for(std::chrono::seconds(8));
    return 0;
  }
  const auto start = Deadline::Clock::now();
  try {
    const World world = World::join();
    std::printf("rank %s joined\n", rank);
  } catch (const Error& error) {
    const std::chrono::duration<double> took = Deadline::Clock::now() - start;
    std::printf("rank %s refused after %.2f s: %s: %s\n", rank, took.count(),
                std::string(name(error.code())).c_str(), error.what());
  }
  return 0;
}
