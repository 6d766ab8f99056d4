// Jobs of two ranks over each fabric, with tensors in host memory or on a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/world/gpu_rank.hpp"
#include "tests/toy_fabric/toy_fabric.hpp"
#if defined(WEFT_TEST_FAKE_NIC)
#include "p2p/transport/verbs/fake/fake_network.hpp"
#endif
#if defined(WEFT_TEST_SIMULATION)
#include "tests/sim/simulated_job.hpp"
#endif

namespace weft::tests {

enum class Over : std::uint8_t { shm, tcp, nics, toy, simulation };

/// Within a host, between hosts, and in simulated time where that is built.
inline std::vector<Over> some_fabrics() {
  std::vector<Over> some{Over::shm, Over::tcp};
#if defined(WEFT_TEST_SIMULATION)
  some.push_back(Over::simulation);
#endif
  return some;
}

/// ThreadSanitizer is slow, and the fabrics have much the same races.
inline std::vector<Over> all_fabrics() {
  std::vector<Over> all = some_fabrics();
#if !defined(__SANITIZE_THREAD__)
  all.push_back(Over::toy);
#if defined(WEFT_TEST_FAKE_NIC)
  all.push_back(Over::nics);
#endif
#endif
  return all;
}

inline std::string name_of(Over fabric) {
  constexpr std::array<const char*, 5> kNames{"shm", "tcp", "nics", "toy", "simulation"};
  return kNames[static_cast<std::size_t>(fabric)];
}

/// Runs `body` as both ranks.
inline void run_over(Over fabric, const std::function<void(World&)>& body, std::uint64_t seed = 1) {
  const Config config = settings().with(Setting::log, "off");
  switch (fabric) {
    case Over::shm:
    case Over::tcp:
      return run_on(2, config.with(Setting::fabric, name_of(fabric)), body);
    case Over::nics: {
#if defined(WEFT_TEST_FAKE_NIC)
      p2p::verbs::fake::FakeNetwork network({.seed = seed});
      run_ranks(2, body, config.with(Setting::fabric, "verbs"),
                [&](int rank) { return network.devices(rank, {{.name = "fake0"}}); });
      EXPECT_EQ(network.complaints() + network.left_behind(), "");
#endif
      return;
    }
    case Over::toy: {
      toy::ToyNetwork network;
      return run_ranks(2, body, config, {}, network.fabrics());
    }
    case Over::simulation:
#if defined(WEFT_TEST_SIMULATION)
      run_simulated(2, body, {.seed = seed, .faults = kHarmlessFaults},
                    simulated_settings().with(Setting::arena_chunk, "2m"));
#endif
      return;
  }
}

/// Operations of the stand-in take their time, so that what isn't waited for shows. In simulated
/// time they move on when asked for.
inline stand_in::Options options_for(Over fabric) {
  if (fabric == Over::simulation)
    return {.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(0)};
  return {.delay = std::chrono::milliseconds(1)};
}

/// A machine whose driver exports no memory, so that all that goes to a GPU is staged.
inline stand_in::Options without_exports(stand_in::Options options = {}) {
  for (auto& gpu : options.gpus) gpu.attributes = {{DeviceAttribute::export_by_descriptor, 0}};
  return options;
}

/// A tensor f32 with these elements.
inline Tensor tensor_of(World& world, Memory memory, std::vector<float> values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  Tensor tensor = world.allocate(DType::f32, shape, memory);
  world.copy(Tensor::wrap(values.data(), DType::f32, shape), tensor);
  return tensor;
}

/// The elements as the application's own stream sees them, which is in no order with weft's.
inline std::vector<float> seen_by_application(World& world, const Tensor& tensor) {
  if (tensor.memory().is_host()) return elements_of(world, tensor);
  const Driver& driver = **load_driver();
  const OwnContext own(driver, tensor.memory().ordinal());
  StreamHandle stream = nullptr;
  EXPECT_OK(driver.create_stream(&stream, kStreamNonBlocking));
  std::vector<float> host(static_cast<std::size_t>(tensor.shape().elements()));
  world.copy(tensor, Tensor::wrap(host.data(), DType::f32, tensor.shape()), Stream::cuda(stream));
  EXPECT_OK(driver.synchronize_stream(stream));
  EXPECT_OK(driver.destroy_stream(stream));
  return host;
}

inline EdgeReport edge_of(const World& world, const std::string& slot, Role role) {
  for (const auto& edge : world.report().edges)
    if (edge.slot == slot && edge.role == role) return edge;
  throw std::runtime_error("the report has no edge for slot " + slot);
}

/// The ranks' common end of a test, by slots in host memory alone.
inline void meet(World& world) {
  const SlotSpec spec{.name = "meeting", .shape = {1}};
  Slot slot = world.expose(spec);
  RemoteSlot remote = world.attach(1 - world.rank(), spec);
  remote.put(world.allocate(DType::f32, {1})).wait().or_throw();
  slot.wait().value();
}

}  // namespace weft::tests
