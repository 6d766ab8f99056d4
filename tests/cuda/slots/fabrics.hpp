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

/// NICs reach no GPU's memory, or do by a dma-buf, or by its address. In order: all bytes of a
/// write land in their order, so that words may come right behind tensors.
enum class Over : std::uint8_t {
  shm,
  tcp,
  nics,
  nics_with_dma_buf,
  nics_with_peermem,
  nics_in_order,
  toy,
  simulation
};

inline bool moves_by_nic(Over fabric) {
  return fabric == Over::nics_with_dma_buf || fabric == Over::nics_with_peermem;
}

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
#if defined(WEFT_TEST_FAKE_NIC)
  if (stand_in::control() != nullptr) {
    all.push_back(Over::nics_with_dma_buf);
    all.push_back(Over::nics_with_peermem);
  }
#endif
  return all;
}

inline std::string name_of(Over fabric) {
  constexpr std::array<const char*, 8> kNames{
      "shm",           "tcp", "nics",      "nics_with_dma_buf", "nics_with_peermem",
      "nics_in_order", "toy", "simulation"};
  return kNames[static_cast<std::size_t>(fabric)];
}

#if defined(WEFT_TEST_FAKE_NIC)
/// The stand-in's GPUs, as the NICs of its machine reach them.
class GpusOfStandIn final : public p2p::verbs::fake::GpuMemory {
 public:
  bool has(std::uint64_t address, std::size_t bytes) override {
    return control_->nic_reaches(address, bytes);
  }
  bool is_dma_buf(int fd, std::uint64_t offset, std::uint64_t address) override {
    return control_->is_dma_buf(fd, offset, address);
  }
  void write(std::uint64_t to, const std::byte* from, std::size_t bytes) override {
    control_->nic_writes(to, from, bytes);
  }
  void read(std::byte* to, std::uint64_t from, std::size_t bytes) override {
    control_->nic_reads(to, from, bytes);
  }

 private:
  stand_in::Control* const control_ = stand_in::control();
};

/// A network whose NICs are in the stand-in's machine.
inline p2p::verbs::fake::NetworkOptions with_gpus(std::uint64_t seed = 1) {
  p2p::verbs::fake::NetworkOptions options{.seed = seed};
  if (stand_in::control() != nullptr) options.gpus = std::make_shared<GpusOfStandIn>();
  return options;
}
#endif

/// Runs `body` as both ranks.
inline void run_over(Over fabric, const std::function<void(World&)>& body, std::uint64_t seed = 1,
                     const std::vector<std::pair<Setting, std::string>>& also = {}) {
  const auto with_all = [&](Config config) {
    for (const auto& [setting, value] : also) config = config.with(setting, value);
    return config;
  };
  const Config config = with_all(settings().with(Setting::log, "off"));
  switch (fabric) {
    case Over::shm:
    case Over::tcp:
      return run_on(2, config.with(Setting::fabric, name_of(fabric)), body);
    case Over::nics:
    case Over::nics_with_dma_buf:
    case Over::nics_with_peermem:
    case Over::nics_in_order: {
#if defined(WEFT_TEST_FAKE_NIC)
      p2p::verbs::fake::FakeNetwork network(with_gpus(seed));
      const p2p::verbs::fake::NicSpec nic{.name = "fake0",
                                          .data_in_order = fabric == Over::nics_in_order,
                                          .dma_buf = fabric == Over::nics_with_dma_buf,
                                          .peermem = fabric == Over::nics_with_peermem};
      run_ranks(2, body, config.with(Setting::fabric, "verbs"),
                [&](int rank) { return network.devices(rank, {nic}); });
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
                    with_all(simulated_settings().with(Setting::arena_chunk, "2m")));
#endif
      return;
  }
}

/// A machine where a NIC's writes are seen once they were flushed: by the driver, or a NIC's read.
inline stand_in::Options with_flushes(bool by_driver, stand_in::Options options = {}) {
  for (auto& gpu : options.gpus)
    gpu.attributes = {{DeviceAttribute::gpudirect_ordering, 0},
                      {DeviceAttribute::gpudirect_flush, by_driver ? 1 : 0}};
  options.nic_writes_unseen = true;
  return options;
}

/// Operations of the stand-in take their time, so that what isn't waited for shows. In simulated
/// time they move on when asked for.
inline stand_in::Options options_for(Over fabric) {
  if (fabric == Over::simulation)
    return {.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(0)};
  if (moves_by_nic(fabric))
    return with_flushes(fabric == Over::nics_with_dma_buf, {.delay = std::chrono::milliseconds(1)});
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

/// A place that both ranks come to, by slots in host memory alone: once for each name, most often
/// at the end of a test.
inline void meet(World& world, const std::string& name = "meeting") {
  const SlotSpec spec{.name = name, .shape = {1}};
  Slot slot = world.expose(spec);
  RemoteSlot remote = world.attach(1 - world.rank(), spec);
  remote.put(world.allocate(DType::f32, {1})).wait().or_throw();
  slot.wait().value();
}

}  // namespace weft::tests
