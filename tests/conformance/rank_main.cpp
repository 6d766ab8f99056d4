// Runs the bodies as one rank under a launcher, all in turn in one job:
//   conformance_ranks            every body
//   conformance_ranks NAME...    the named ones; soak and churn too
// Before these, --gpu-owners and --gpu-others put tensors on GPUs (Ends). Bodies that are of host
// memory are left out then.
// WEFT_FABRIC chooses the fabric. The first body that fails is named on stderr.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "base/config.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/runner.hpp"
#include "tests/conformance/settings.hpp"

namespace {

using namespace weft;
using namespace weft::conformance;

/// Rank 0 chooses the seed.
std::uint64_t agreed_seed(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const PublishedSpec spec{.name = "seed", .dtype = DType::i64, .shape = {1}};
  PublishedSlot slot;
  if (world.rank() == 0) {
    slot = world.expose_published(spec);
    check.ok(slot.next(), "next").as<std::int64_t>()[0] = static_cast<std::int64_t>(seed_to_use());
    check.ok(slot.publish(), "publish");
  }
  auto remote = world.attach_published(0, spec);
  const auto seed = check.ok(remote.view(), "view").as<std::int64_t>()[0];
  meeting.wait();
  return static_cast<std::uint64_t>(seed);
}

/// Takes the options off the arguments.
void take_ends(int& count, char**& arguments) {
  for (; count > 0 && std::strncmp(*arguments, "--", 2) == 0; --count, ++arguments) {
    const std::string option = *arguments;
    if (option != "--gpu-owners" && option != "--gpu-others")
      throw std::runtime_error("there is no option " + option);
    (option == "--gpu-owners" ? settings().ends.owner : settings().ends.other) = Memory::gpu();
  }
}

Bodies chosen(int count, char** names) {
  const bool on_gpus = settings().ends.owner.is_gpu() || settings().ends.other.is_gpu();
  Bodies known = on_gpus ? bodies_for_gpus() : all_bodies();
  if (count == 0) return known;
  known.push_back({"soak", soak});
  known.push_back({"churn", churn});
  Bodies bodies;
  for (int i = 0; i < count; ++i) {
    const auto before = bodies.size();
    for (const Body& body : known)
      if (body.name == names[i]) bodies.push_back(body);
    if (bodies.size() == before)
      throw std::runtime_error(std::string("no body is called ") + names[i]);
  }
  return bodies;
}

/// Prints the failure while the rank is still there: other ranks fail later, because of it.
bool run_all(World& world, const Bodies& bodies) {
  std::string at = "the runner";
  try {
    settings().seed = agreed_seed(world);
    if (world.rank() == 0)
      std::printf("WEFT_TEST_SEED=%llu repeats this run\n",
                  static_cast<unsigned long long>(settings().seed));
    Runner runner(world);
    for (const Body& body : bodies) {
      at = body.name;
      const auto start = Clock::now();
      runner.run(body);
      const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      if (world.rank() == 0)
        std::printf("%-45s held, %lld ms\n", at.c_str(), static_cast<long long>(took.count()));
    }
    at = "leave";
    world.leave(Deadline::after(std::chrono::seconds(20))).or_throw();
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d failed in %s: %s\n", world.rank(), at.c_str(), error.what());
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const char* full = std::getenv("WEFT_TEST_FULL");
  const bool is_full = full != nullptr && std::strcmp(full, "1") == 0;
  // Where work requests are small, a tensor of several requests counts as large.
  if (const auto most = Config::read().size(Setting::ib_max_message))
    settings().large = std::min(settings().large, static_cast<std::int64_t>(256 * *most));
  settings().soak = std::chrono::seconds(is_full ? 120 : 20);
  settings().churn_slots = 10'000;
  settings().churn_cycles = is_full ? 100 : 3;
  int count = argc - 1;
  char** words = argv + 1;
  take_ends(count, words);
  const Bodies bodies = chosen(count, words);
  World world = World::join();
  return run_all(world, bodies) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "failed: %s\n", error.what());
  return 1;
}
