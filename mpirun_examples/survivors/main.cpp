// A trainer that survives deaths: when a rank dies, the others agree on the survivors, make the
// table again among themselves from its last checkpoint, and continue training in the same job.
//   mpirun.openmpi --enable-recovery -n 4 survivors FOLDER STEPS
// With WEFT_PS_SERVERS=1 the highest surviving rank only serves.
// To see a death: weft-chaos --kill --after 2 -- mpirun.openmpi ... (as above)
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace {

using weft::pslib::Optimizer;

constexpr std::int64_t kPoints = 64;
constexpr std::int64_t kStride = 27;  // consecutive points are far apart

struct Job {
  std::string folder;
  std::uint64_t steps = 0;
};

// Every rank sees different points of y = 2x + 1; the surviving ranks fit the line together. Throws
// weft::Error if a rank is lost.
void train(weft::World& world, const weft::Group& group, const Job& job) {
  weft::pslib::ParameterServer server(world, group);
  weft::pslib::TableOptions options(Optimizer::sgd(0.1F));
  options.checkpoint = {.folder = job.folder, .every = 5};
  weft::pslib::Table line = server.table("line", {{"slope", {1}}, {"offset", {1}}}, options);
  if (!server.works()) {
    weft::pslib::Table* const tables[] = {&line};
    server.serve(tables).or_throw();
    (void)world.leave();
    std::printf("rank %d of %d left: served\n", world.rank(), group.size());
    return;
  }
  line.initialize().or_throw();
  std::printf("rank %d goes on as one of %d from version %llu\n", world.rank(), group.size(),
              static_cast<unsigned long long>(line.version()));
  std::fflush(stdout);

  const float& slope = line.parameter("slope").as<float>()[0];
  const float& offset = line.parameter("offset").as<float>()[0];
  while (line.version() < job.steps) {
    const auto point = static_cast<std::int64_t>(line.version()) * group.size() + group.rank();
    const float x = static_cast<float>(point * kStride % kPoints) / (kPoints / 2.0F) - 1.0F;
    const float error = slope * x + offset - (2.0F * x + 1.0F);
    line.gradient("slope").as<float>()[0] = 2.0F * error * x;
    line.gradient("offset").as<float>()[0] = 2.0F * error;
    line.push_pull().or_throw();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // simulates a larger model
  }
  // Leave before the table is destroyed: other ranks may be reading this rank's shard.
  (void)world.leave();
  const bool is_found = std::abs(slope - 2.0F) < 0.01F && std::abs(offset - 1.0F) < 0.01F;
  std::printf("rank %d of %d left: y = %.3f x + %.3f, %s\n", world.rank(), group.size(),
              static_cast<double>(slope), static_cast<double>(offset),
              is_found ? "found" : "not found");
}

bool may_go_on(weft::Code code) {
  return code == weft::Code::peer_failed || code == weft::Code::peer_left ||
         code == weft::Code::closed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: survivors FOLDER STEPS\n");
    return 2;
  }
  const Job job{argv[1], std::strtoull(argv[2], nullptr, 10)};
  try {
    weft::World world = weft::World::join();
    weft::Group group = world.group();
    for (;;) {
      try {
        train(world, group, job);
        return 0;
      } catch (const weft::Error& error) {
        if (!may_go_on(error.code())) throw;
        std::printf("rank %d: %s\n", world.rank(), error.what());
        group = group.shrink().value();
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "survivors: %s\n", error.what());
    return 1;
  }
}
