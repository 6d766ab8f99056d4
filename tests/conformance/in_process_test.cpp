// Runs the bodies between ranks that are threads of one process; the build chooses the fabric.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/world/in_process.hpp"
#include "tests/conformance/runner.hpp"
#include "tests/conformance/settings.hpp"
#if defined(WEFT_CONFORMANCE_FAKE_NIC)
#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "tests/conformance/port_cutter.hpp"
#elif defined(WEFT_CONFORMANCE_TOY)
#include "tests/toy_fabric/toy_fabric.hpp"
#endif

namespace weft::conformance {
namespace {

/// Rails of each path.
#if defined(WEFT_CONFORMANCE_RAILS)
constexpr int kRails = WEFT_CONFORMANCE_RAILS;
#else
constexpr int kRails = 1;
#endif

#if defined(WEFT_CONFORMANCE_CUTS_PORTS)
constexpr bool kCutsPorts = true;
#elif defined(WEFT_CONFORMANCE_FAKE_NIC)
constexpr bool kCutsPorts = false;
#endif

/// Fewer rank counts under a sanitizer: four ranks show the sanitizer what two and eight would.
/// Several rails change what a pair does.
#if defined(WEFT_CONFORMANCE_CUTS_PORTS)
const std::vector<int> kRanks = {2};
#elif defined(WEFT_CONFORMANCE_RAILS)
const std::vector<int> kRanks = kSanitized || kRails > 2 ? std::vector{2} : std::vector{2, 5};
#elif defined(WEFT_CONFORMANCE_ON_FIRST_USE)
const std::vector<int> kRanks = kSanitized ? std::vector{4} : std::vector{2, 5};
#else
const std::vector<int> kRanks = kSanitized ? std::vector{4} : std::vector{1, 2, 3, 8};
#endif

Bodies bodies_and_long_ones() {
  Bodies bodies = all_bodies();
  bodies.push_back({"soak", soak});
  bodies.push_back({"churn", churn});
  return bodies;
}

std::string fabric() { return WEFT_CONFORMANCE_FABRIC; }

/// Connects every pair at join, or no pair before its first use.
std::string eager_ranks() {
#if defined(WEFT_CONFORMANCE_ON_FIRST_USE)
  return "0";
#else
  return "128";
#endif
}

/// Means that the fabric needs from outside: a software NIC for each rank, or a network.
#if defined(WEFT_CONFORMANCE_FAKE_NIC)
class Network {
 public:
  explicit Network(int ranks) {
    if (kCutsPorts) cutter_.emplace(network_, ranks, kRails, settings().seed);
  }
  /// For as long as the rank runs its body.
  std::unique_ptr<PortCutter::Watched> watch(World& world) {
    return cutter_ ? std::make_unique<PortCutter::Watched>(*cutter_, world) : nullptr;
  }
  InProcessJob::FabricsOf fabrics() { return {}; }
  InProcessJob::VerbsOf nics() {
    return [this](int rank) {
      std::vector<p2p::verbs::fake::NicSpec> ports(kRails);
      for (std::size_t i = 0; i < ports.size(); ++i) ports[i].name = "fake" + std::to_string(i);
      return network_.devices(rank, std::move(ports));
    };
  }
  std::string complaints() {
    cutter_.reset();
    return network_.complaints() + network_.left_behind();
  }

 private:
  p2p::verbs::fake::FakeNetwork network_{{.seed = settings().seed}};
  std::optional<PortCutter> cutter_;
};
#elif defined(WEFT_CONFORMANCE_TOY)
class Network {
 public:
  explicit Network(int) {}
  InProcessJob::FabricsOf fabrics() { return network_.fabrics(); }
  InProcessJob::VerbsOf nics() { return {}; }
  int watch(World&) { return 0; }
  std::string complaints() const { return {}; }

 private:
  toy::ToyNetwork network_;
};
#else
class Network {
 public:
  explicit Network(int) {}
  InProcessJob::FabricsOf fabrics() { return {}; }
  InProcessJob::VerbsOf nics() { return {}; }
  int watch(World&) { return 0; }
  std::string complaints() const { return {}; }
};
#endif

class Conformance : public testing::TestWithParam<std::tuple<Body, int>> {};

TEST_P(Conformance, Holds) {
  const Body& body = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  settings().seed = seed_to_use();
  settings().soak = std::chrono::milliseconds(300);
  settings().churn_slots = 200;
  std::cout << "WEFT_TEST_SEED=" << settings().seed << " repeats this run\n";
  const Config config = Config()
                            .with(Setting::fabric, fabric())
                            .with(Setting::mesh_eager, eager_ranks())
                            .with(Setting::rails, std::to_string(kRails))
                            .with(Setting::log, "off")
                            .with(Setting::timeout, "20s")
                            .with(Setting::arena_chunk, "4m");
  // The first failure, recorded while its rank is still there: other ranks fail later, because of
  // that one.
  std::mutex mutex;
  std::string failed;
  Network network(ranks);
  const auto run = [&](World& world) {
    try {
      [[maybe_unused]] const auto watched = network.watch(world);
      Runner(world).run(body);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (failed.empty()) failed = error.what();
      throw;
    }
  };
  try {
    run_ranks(ranks, run, config, network.nics(), network.fabrics());
  } catch (const std::exception& error) {
    ADD_FAILURE() << body.name << ": " << (failed.empty() ? error.what() : failed);
  }
  EXPECT_EQ(network.complaints(), "");
}

std::string test_name(const testing::TestParamInfo<std::tuple<Body, int>>& info) {
  return std::string(std::get<0>(info.param).name) + "_of_" +
         std::to_string(std::get<1>(info.param));
}

#if defined(WEFT_CONFORMANCE_CUTS_PORTS)
/// Behind the bodies.
class Cuts : public testing::Environment {
 public:
  void TearDown() override {
    std::cout << PortCutter::cuts() << " cuts\n";
    if (testing::UnitTest::GetInstance()->successful_test_count() > 50) {
      EXPECT_GT(PortCutter::cuts(), 50);
    }
  }
};
const testing::Environment* const kCuts = testing::AddGlobalTestEnvironment(new Cuts);
#endif

INSTANTIATE_TEST_SUITE_P(Bodies, Conformance,
                         testing::Combine(testing::ValuesIn(bodies_and_long_ones()),
                                          testing::ValuesIn(kRanks)),
                         test_name);

}  // namespace

/// How GoogleTest prints a body.
inline void PrintTo(const Body& body, std::ostream* out) { *out << body.name; }

}  // namespace weft::conformance
