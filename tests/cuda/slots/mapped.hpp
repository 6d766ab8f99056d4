// Shared by the tests of puts that a GPU copies into the owner's.
#pragma once

#include <functional>
#include <string>

#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {

inline constexpr std::int64_t kElements = 1000;

inline SlotSpec spec_on(Memory memory, std::uint32_t depth = 2) {
  return {.name = "in", .shape = {kElements}, .depth = depth, .memory = memory};
}

/// A rank whose own GPU is that one.
inline Config with_gpu(const char* number) {
  return settings().with(Setting::gpu, number).with(Setting::log, "off");
}

/// Whether a way has the words in its reason.
inline testing::AssertionResult has(const EdgeReport& edge, const std::string& way,
                                    const std::string& words) {
  if (edge.way == way && edge.reason.find(words) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << edge.way << ": " << edge.reason;
}

class MappedPuts : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  }

  /// A rank puts from its own GPU, 0 or 1, to another rank's GPU 0; both ends must say that they go
  /// that way.
  void expect_way(
      const char* gpu, const std::string& way, const std::string& words,
      const std::function<void()>& before_attach = [] {}) {
    Meeting exposed(2);
    constexpr int kCount = 5;
    const auto expect_edge = [&](World& world, Role role) {
      const EdgeReport edge = edge_of(world, "in", role);
      EXPECT_TRUE(has(edge, way, words));
      EXPECT_EQ(edge.counters.transfers, 0U + kCount);
      EXPECT_EQ(edge.counters.staged_bytes, way == "mapped" ? 0U : 4U * kCount * kElements);
    };
    run_pair(
        [&](World& world) {
          Slot slot = world.expose(spec_on(Memory::gpu(0)));
          exposed.wait();
          for (int i = 0; i < kCount; ++i)
            EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                      counted(kElements, static_cast<float>(i)));
          expect_edge(world, Role::receives);
          meet(world);
        },
        [&](World& world) {
          const Tensor from = tensor_of(world, Memory::gpu(), counted(kElements));
          exposed.wait();
          before_attach();
          RemoteSlot remote = world.attach(0, spec_on({}));
          for (int i = 0; i < kCount; ++i) {
            world.copy(tensor_of(world, {}, counted(kElements, static_cast<float>(i))), from);
            remote.put(from).wait().or_throw();
          }
          expect_edge(world, Role::puts);
          meet(world);
        },
        with_gpu(gpu));
  }
};

}  // namespace weft::tests
