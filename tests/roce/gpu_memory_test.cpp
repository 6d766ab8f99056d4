// A Soft-RoCE device moves tensors from and to GPU memory that the process can't touch. Its driver
// takes neither dma-bufs nor addresses without pages, so the chunks are registered by the
// stand-in's second, hidden mapping, under the GPU's addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "p2p/transport/verbs/api/load.hpp"
#include "tests/conformance/runner.hpp"
#include "tests/conformance/settings.hpp"
#include "tests/cuda/world/gpu_rank.hpp"
#include "tests/support/edges.hpp"
#include "tests/unit/verbs/recording_verbs.hpp"

namespace weft::tests {
namespace {

constexpr std::array<std::string_view, 4> kBodies{"carries_every_size", "carries_every_dtype",
                                                  "brings_every_shape", "grows_with_large_tensors"};

class HiddenMemory final : public p2p::verbs::RecordingVerbs {
 public:
  HiddenMemory(std::shared_ptr<p2p::verbs::Verbs> below, stand_in::Control& control)
      : RecordingVerbs(std::move(below)), control_(control) {}

  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const p2p::verbs::DmaBuf& memory,
                        int access) noexcept override {
    std::byte* hidden = control_.reach(memory.address, memory.bytes, 0);
    return ibv_reg_mr_iova(pd, hidden, memory.bytes, memory.address, static_cast<unsigned>(access));
  }

 private:
  stand_in::Control& control_;
};

class SoftRoceOnGpus : public OnGpus {
 protected:
  stand_in::Options options() const override { return {.gpus = {1, stand_in::GpuOptions()}}; }
};

TEST_F(SoftRoceOnGpus, MovesFixedAndDynamicTensors) {
  std::string why;
  const auto machine = p2p::verbs::load_verbs(why);
  ASSERT_NE(machine, nullptr) << why;
  conformance::settings().ends = {.owner = Memory::gpu(), .other = Memory::gpu()};
  conformance::settings().large = 1 << 20;
  run_ranks(
      2,
      [](World& world) {
        // This end and its peer's say how tensors go.
        const SlotSpec spec{.name = "way", .shape = {1000}, .memory = Memory::gpu()};
        Slot slot = world.expose(spec);
        RemoteSlot remote = world.attach(1 - world.rank(), spec);
        remote.put(world.allocate(DType::f32, {1000}, Memory::gpu())).wait().or_throw();
        slot.wait().value();
        for (const EdgeReport& edge : world.report().edges) {
          EXPECT_EQ(edge.way, "gpudirect") << edge.reason;
          EXPECT_EQ(edge.counters.staged_bytes, 0U);
        }
        conformance::Runner runner(world);
        std::size_t bodies = 0;
        for (const conformance::Body& body : conformance::bodies_for_gpus())
          if (std::ranges::find(kBodies, body.name) != kBodies.end()) {
            runner.run(body);
            ++bodies;
          }
        EXPECT_EQ(bodies, kBodies.size());
      },
      settings().with(Setting::fabric, "verbs").with(Setting::timeout, "60s"),
      [&](int) { return std::make_shared<HiddenMemory>(machine, *control()); });
  conformance::settings().ends = {};
}

}  // namespace
}  // namespace weft::tests
