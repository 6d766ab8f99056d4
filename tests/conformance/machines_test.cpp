// Runs the bodies over NICs that are slow, have few resources or break rules, with every
// WEFT_NOTIFY mode.
#include <gtest/gtest.h>

#include <iostream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "runtime/world/in_process.hpp"
#include "tests/conformance/runner.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::FaultPlan;
using p2p::verbs::fake::NicSpec;

/// The NIC and the settings of every rank.
struct Machine {
  std::string name;
  std::vector<std::pair<Setting, std::string>> settings;
  NicSpec nic = {};
  bool under_sanitizers = false;
};

/// All behaviour that the specification allows a NIC and a perfect NIC does not show.
FaultPlan trouble() { return {.delayed = 0.1, .late = 0.2, .scattered = 0.5, .spurious = 0.2}; }

std::vector<Machine> machines() {
  FaultPlan busy = trouble();
  busy.full = 0.1;
  std::vector<Machine> all = {
      {"troubled", {{Setting::notify, "imm"}, {Setting::cqs, "0"}}, {.faults = trouble()}, true},
      {"troubled_with_2_threads",
       {{Setting::notify, "imm"}, {Setting::qps_per_peer, "2"}, {Setting::cqs, "2"}},
       {.faults = trouble()},
       true},
      {"striped",
       {{Setting::notify, "imm"}, {Setting::qps_per_peer, "4"}, {Setting::cqs, "1"}},
       {.faults = trouble()}},
      {"counted_by_2",
       {{Setting::notify, "counted"}, {Setting::qps_per_peer, "2"}},
       {.faults = trouble()},
       true},
      {"counted_by_8_with_2_threads",
       {{Setting::notify, "counted"}, {Setting::qps_per_peer, "8"}, {Setting::cqs, "2"}},
       {.faults = trouble()}},
      {"counted_by_1_with_a_thread",
       {{Setting::notify, "counted"}, {Setting::cqs, "1"}},
       {.faults = trouble()}},
      {"send", {{Setting::notify, "send"}}, {.faults = trouble()}},
      {"full_now_and_then", {{Setting::qps_per_peer, "2"}}, {.faults = busy}, true},
      {"full_now_and_then_counted",
       {{Setting::notify, "counted"}, {Setting::qps_per_peer, "2"}, {Setting::cqs, "1"}},
       {.max_message = 64 << 10, .faults = busy}},
      {"by_the_connection_manager",
       {{Setting::connect, "cm"}, {Setting::qps_per_peer, "2"}},
       {.faults = trouble()},
       true},
      {"in_order",
       {{Setting::qps_per_peer, "4"}},
       {.data_in_order = true, .faults = {.delayed = 0.1}}},
      {"tail_in_order",
       {{Setting::notify, "tail"}, {Setting::cqs, "2"}},
       {.data_in_order = true, .faults = {.late = 0.2}}},
      {"small_messages",
       {{Setting::qps_per_peer, "2"}},
       {.max_message = 4096, .faults = {.late = 0.1, .scattered = 0.2}}},
      {"tiny_queues",
       {{Setting::queue_depth, "16"}},
       {.max_message = 64 << 10, .faults = trouble()}},
      {"tiny_queues_and_small_messages",
       {{Setting::queue_depth, "16"}, {Setting::qps_per_peer, "2"}, {Setting::cqs, "1"}},
       {.max_message = 4096, .faults = {.late = 0.1}}},
      {"tiny_queues_counted",
       {{Setting::queue_depth, "16"}, {Setting::notify, "counted"}, {Setting::qps_per_peer, "4"}},
       {.faults = {.late = 0.1}}},
      {"one_piece_no_inline", {}, {.max_inline = 0, .max_sges = 1, .faults = trouble()}},
      {"tiny_send",
       {{Setting::notify, "send"},
        {Setting::queue_depth, "16"},
        {Setting::cqs, "2"},
        {Setting::qps_per_peer, "2"}},
       {.max_inline = 0, .max_sges = 1, .faults = trouble()},
       true},
  };
  if (kSanitized) std::erase_if(all, [](const Machine& one) { return !one.under_sanitizers; });
  return all;
}

Bodies bodies_for(const Machine& machine) {
  Bodies bodies = all_bodies();
  // Its tensors take more than one request where messages are small, as they must.
  constexpr std::uint32_t kLargestTensor = 20000;
  if (machine.nic.max_message < kLargestTensor)
    std::erase_if(bodies,
                  [](const Body& body) { return body.name == "costs_one_request_a_transfer"; });
  return bodies;
}

Config config_of(const Machine& machine) {
  Config config = Config()
                      .with(Setting::fabric, "verbs")
                      .with(Setting::log, "off")
                      .with(Setting::timeout, "20s")
                      .with(Setting::arena_chunk, "4m");
  for (const auto& [setting, value] : machine.settings) config = config.with(setting, value);
  return config;
}

void settle(std::uint64_t seed) {
  settings().seed = seed;
  settings().large = kSanitized ? 256 << 10 : 2 << 20;
  settings().churn_slots = 100;
}

/// The first failure, with the body's name; empty without a failure.
std::string failure(int ranks, const Machine& machine, const Bodies& bodies, FakeNetwork& network) {
  std::mutex mutex;
  std::string first;
  const auto run = [&](World& world) {
    std::string_view at = "the runner";
    try {
      Runner runner(world);
      for (const Body& body : bodies) {
        at = body.name;
        runner.run(body);
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (first.empty())
        first =
            "rank " + std::to_string(world.rank()) + ", " + std::string(at) + ": " + error.what();
      throw;
    }
  };
  try {
    run_ranks(ranks, run, config_of(machine),
              [&](int rank) { return network.device(rank, machine.nic); });
  } catch (const std::exception& error) {
    if (first.empty()) first = error.what();
  }
  return first;
}

class Machines : public testing::TestWithParam<Machine> {};

TEST_P(Machines, DoWhatEveryFabricDoes) {
  const std::uint64_t seed = seed_to_use();
  std::cout << "WEFT_TEST_SEED=" << seed << " repeats this run\n";
  settle(seed);
  FakeNetwork network({.seed = seed});
  EXPECT_EQ(failure(3, GetParam(), bodies_for(GetParam()), network), "");
  EXPECT_EQ(network.complaints(), "");
  EXPECT_EQ(network.left_behind(), "");
}

INSTANTIATE_TEST_SUITE_P(WithNics, Machines, testing::ValuesIn(machines()),
                         [](const auto& info) { return info.param.name; });

/// The bodies must notice a NIC that breaks a guarantee that the fabric relies on.
class ABrokenNic : public testing::TestWithParam<Machine> {};

TEST_P(ABrokenNic, IsNoticed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what is planted is a race, which ThreadSanitizer reports before any body";
#endif
  settle(seed_to_use());
  FakeNetwork network({.seed = settings().seed});
  Machine machine = GetParam();
  machine.settings.emplace_back(Setting::timeout, "5s");
  EXPECT_NE(failure(2, machine, put_bodies(), network), "") << "nobody noticed";
  EXPECT_EQ(network.left_behind(), "");
}

std::vector<Machine> broken() {
  const FaultPlan overtaken = {.overtaken = 1, .longest = std::chrono::milliseconds(2)};
  return {
      {"payload_after_its_counted_notification",
       {{Setting::notify, "counted"}},
       {.faults = overtaken}},
      {"payload_after_the_send_behind_it", {{Setting::notify, "send"}}, {.faults = overtaken}},
      {"first_part_after_the_last",
       {{Setting::notify, "imm"}},
       {.max_message = 4096, .faults = overtaken}},
  };
}

INSTANTIATE_TEST_SUITE_P(WithBodies, ABrokenNic, testing::ValuesIn(broken()),
                         [](const auto& info) { return info.param.name; });

/// How GoogleTest prints a machine.
inline void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.name; }

}  // namespace
}  // namespace weft::conformance
