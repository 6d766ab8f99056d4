// Ranks that live until their launcher dies: even ranks wait inside weft, odd ones never call it.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "weft/world.hpp"

int main() {
  using namespace weft;
  World world = World::join();
  auto slot = world.expose({.name = "silent", .dtype = DType::u8, .shape = {1}});
  std::printf("joined rank %d pid %d\n", world.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
  constexpr std::chrono::seconds kLonger(60);
  if (world.rank() % 2 == 0)
    (void)slot.wait(Deadline::after(kLonger));
  else
    std::this_thread::sleep_for(kLonger);
  return 0;
}
