// Common parts of the tests of jobs over fake NICs.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {

using p2p::verbs::fake::Failure;
using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::FaultPlan;
using p2p::verbs::fake::NetworkOptions;
using p2p::verbs::fake::NicCounts;
using p2p::verbs::fake::NicSpec;
using p2p::verbs::fake::VerbsCall;

inline Config verbs_settings() {
  return settings().with(Setting::fabric, "verbs").with(Setting::log, "off");
}

/// A job whose ranks have one NIC each, or several alike, "fake0", "fake1", ...; owns their
/// network.
class NicJob {
 public:
  explicit NicJob(const NetworkOptions& options = {}, const NicSpec& nic = {}, int nics = 1)
      : network(options), nics_(static_cast<std::size_t>(nics), nic) {
    for (int i = 0; nics > 1 && i < nics; ++i)
      nics_[static_cast<std::size_t>(i)].name = "fake" + std::to_string(i);
  }

  /// Runs `body` on each rank. Afterwards the ranks must have released all objects of their NICs.
  void run(int ranks, const Config& config, const std::function<void(World&)>& body) {
    run_ranks(ranks, body, config, [this](int rank) { return network.devices(rank, nics_); });
    expect_clean();
  }
  void run(int ranks, const std::function<void(World&)>& body) {
    run(ranks, verbs_settings(), body);
  }
  void expect_clean() const {
    EXPECT_EQ(network.complaints(), "");
    EXPECT_EQ(network.left_behind(), "");
  }
  /// Work requests that a rank has posted to all its send queues so far.
  std::uint64_t posted(int rank) const {
    const NicCounts counts = network.counts(rank);
    return counts.writes + counts.writes_with_immediate + counts.sends + counts.reads;
  }

  FakeNetwork network;

 private:
  std::vector<NicSpec> nics_;
};

/// Rank 0's part where its path ends: takes tensors of rank 1 until then, and returns that end.
inline Status take_until_the_end(World& world, const SlotSpec& spec) {
  Slot slot = world.expose(spec);
  for (std::uint64_t n = 1;; ++n) {
    auto arrival = slot.wait();
    if (!arrival.ok()) return arrival.status();
    EXPECT_TRUE(holds(arrival->tensor(), pattern_of(1, 0, n))) << n;
  }
}

}  // namespace weft::tests
