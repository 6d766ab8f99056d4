// Dynamic slots whose tensors are read to a GPU, come from one, or both, over every fabric.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

SlotSpec spec_in(Memory memory) {
  return {
      .name = "in", .shape = {1}, .depth = 3, .placement = Placement::dynamic, .memory = memory};
}

/// Elements of the tensor with that number: none, then more and more.
std::vector<float> values(std::int64_t sequence) {
  return counted(static_cast<std::size_t>(700 * (sequence - 1)), static_cast<float>(sequence));
}

class DynamicGpuSlots : public OnGpus,
                        public testing::WithParamInterface<std::tuple<Over, bool, bool>> {
 protected:
  static Over fabric() { return std::get<0>(GetParam()); }
  static Memory writer() { return std::get<1>(GetParam()) ? Memory::gpu() : Memory(); }
  static Memory owner() { return std::get<2>(GetParam()) ? Memory::gpu(0) : Memory(); }
  stand_in::Options options() const override { return options_for(fabric()); }
};

TEST_P(DynamicGpuSlots, BringTensorsOfEachSize) {
  run_over(fabric(), [](World& world) {
    constexpr std::int64_t kCount = 8;
    constexpr std::uint64_t kBytes = 4 * 700 * (kCount * (kCount - 1) / 2);
    const auto expect_costs = [&](Role role, Memory memory) {
      const EdgeReport edge = edge_of(world, "in", role);
      EXPECT_EQ(edge.counters.transfers, 0U + kCount);
      EXPECT_EQ(edge.counters.bytes_moved, kBytes);
      EXPECT_EQ(edge.counters.bytes_copied, 0U);
      const bool by_nic = moves_by_nic(fabric());
      const bool is_staged = memory.is_gpu() && !by_nic;
      EXPECT_EQ(edge.counters.staged_bytes, is_staged ? kBytes : 0);
      EXPECT_EQ(edge.counters.device_copies, is_staged ? 0U + kCount - 1 : 0U);
      EXPECT_EQ(edge.way, !memory.is_gpu() ? "direct" : by_nic ? "gpudirect" : "staged");
      const bool flushes = memory.is_gpu() && by_nic && role == Role::receives;
      EXPECT_EQ(edge.counters.gpu_flushes, flushes ? 0U + kCount - 1 : 0U);
    };
    if (world.rank() == 0) {
      Slot slot = world.expose(spec_in(owner()));
      for (std::int64_t sequence = 1; sequence <= kCount; ++sequence) {
        const Arrival arrival = slot.wait().value();
        EXPECT_EQ(arrival.tensor().memory(), owner());
        EXPECT_EQ(seen_by_application(world, arrival.tensor()), values(sequence));
      }
      expect_costs(Role::receives, owner());
    } else {
      RemoteSlot remote = world.attach(0, spec_in({}));
      std::vector<Request> requests;
      for (std::int64_t sequence = 1; sequence <= kCount; ++sequence)
        requests.push_back(remote.put(tensor_of(world, writer(), values(sequence))));
      for (Request& request : requests) request.wait().or_throw();
      expect_costs(Role::puts, writer());
    }
    meet(world);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Over, DynamicGpuSlots,
    testing::Combine(testing::ValuesIn(all_fabrics()), testing::Bool(), testing::Bool()),
    [](const auto& info) {
      const auto memory = [](bool gpu) { return std::string(gpu ? "gpu" : "host"); };
      return name_of(std::get<0>(info.param)) + "_" + memory(std::get<1>(info.param)) + "_to_" +
             memory(std::get<2>(info.param));
    });

class DynamicCopies : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(1)); }
  /// So that the owner knows the memory that tensors come from.
  static void bring_one(World& world, RemoteSlot& remote, Slot& slot) {
    Request request = remote.put(tensor_of(world, {}, values(2)));
    slot.wait().value();
    request.wait().or_throw();
  }
};

TEST_F(DynamicCopies, GoToWhatTheAllocatorMakes) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec_in({}));
    RemoteSlot remote = world.attach(0, spec_in({}));
    slot.allocate_with([&](DType dtype, const Shape& shape) {
      return world.allocate(dtype, shape, Memory::gpu(1));
    });
    Request request = remote.put(tensor_of(world, {}, values(2)));
    const Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.tensor().memory(), Memory::gpu(1));
    EXPECT_EQ(seen_by_application(world, arrival.tensor()), values(2));
    request.wait().or_throw();
  });
}

TEST_F(DynamicCopies, OutliveADeadline) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec_in(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_in({}));
    bring_one(world, remote, slot);
    Request request = remote.put(tensor_of(world, Memory::gpu(0), values(2)));
    EXPECT_TRUE(tells(request.wait(at_once()), Code::timeout, {"its GPU has not copied"}));
    EXPECT_TRUE(soon([&] { return slot.ready(); }));
    EXPECT_TRUE(tells(slot.wait(at_once()).status(), Code::timeout, {"GPU 0 has not copied it"}));
    EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), values(2));
    request.wait().or_throw();
  });
}

TEST_F(DynamicCopies, OutliveTheirSlot) {
  run_on(1, [&](World& world) {
    {
      Slot slot = world.expose(spec_in(Memory::gpu(0)));
      RemoteSlot remote = world.attach(0, spec_in({}));
      bring_one(world, remote, slot);
      Request request = remote.put(tensor_of(world, {}, values(3)));
      EXPECT_EQ(slot.wait(at_once()).code(), Code::timeout);
    }
    const Tensor host = world.allocate(DType::f32, {8});
    EXPECT_TRUE(soon([&] {
      world.copy(host, host);
      return world.report().arenas[4].used_bytes == 0U;
    }));
  });
}

TEST_F(DynamicCopies, PassOverATensorWhereTheGpuFails) {
  run_on(1, [&](World& world) {
    Slot slot = world.expose(spec_in(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_in({}));
    Request first = remote.put(tensor_of(world, {}, values(2)));
    Request second = remote.put(tensor_of(world, {}, values(3)));
    control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
    EXPECT_TRUE(
        tells(slot.wait().status(), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN", "\"in\""}));
    const Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.sequence(), 2U);
    EXPECT_EQ(seen_by_application(world, arrival.tensor()), values(3));
    first.wait().or_throw();
    second.wait().or_throw();
  });
}

}  // namespace
}  // namespace weft::tests
