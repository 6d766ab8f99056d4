// Rank 1 forks a child that keeps duplicates of all its descriptors, and is killed; rank 0 waits
// for rank 1: survived_by_child
//   rank 1 pid 4711 child 4712
//   rank 0 ended: peer_failed: <the error's text>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "weft/world.hpp"

int main() {
  using namespace weft;
  World world = World::join();
  const SlotSpec spec{.name = "silent", .dtype = DType::u8, .shape = {1}};
  if (world.rank() == 0) {
    auto slot = world.expose(spec);
    Status status = slot.wait().status();
    if (status.ok()) status = slot.wait().status();
    std::printf("rank 0 ended: %s: %s\n", std::string(name(status.code())).c_str(),
                status.text().c_str());
    return 0;
  }
  auto remote = world.attach(0, spec);
  remote.put(world.allocate(spec.dtype, spec.shape)).wait().or_throw();
  const pid_t child = fork();
  if (child == 0) {
    // The driver reads the ranks' lines until all writers have closed the pipe.
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    std::this_thread::sleep_for(std::chrono::seconds(30));
    return 0;
  }
  std::printf("rank 1 pid %d child %d\n", static_cast<int>(getpid()), static_cast<int>(child));
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(30));
  return 0;
}
