// Jobs whose ranks reach each other, and each other's GPUs, by NICs.
#pragma once

#include "tests/cuda/collectives/elements.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {

class OnNics : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's memory";
  }
  stand_in::Options options() const override { return with_flushes(true); }

  using NicSpec = p2p::verbs::fake::NicSpec;

  /// A job whose ranks reach each other by NICs alone, as if each were on a host of its own.
  static void run(int ranks, const std::function<void(World&)>& body,
                  const std::function<NicSpec(int rank)>& nic_of = {},
                  const Config& more = settings(), std::uint64_t seed = 1) {
    p2p::verbs::fake::FakeNetwork network(with_gpus(seed));
    run_ranks(ranks, body, more.with(Setting::fabric, "verbs").with(Setting::log, "off"),
              [&](int rank) { return network.devices(rank, {nic_of ? nic_of(rank) : NicSpec{}}); });
    EXPECT_EQ(network.complaints() + network.left_behind(), "");
  }
};

}  // namespace weft::tests

#endif
