// Gets of published versions into tensors on a GPU, over every fabric.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

const PublishedSpec kSpec{.name = "news", .shape = {500}, .depth = 2};

class GpuGets : public OnGpus, public testing::WithParamInterface<Over> {
 protected:
  stand_in::Options options() const override { return options_for(GetParam()); }
};

TEST_P(GpuGets, BringAWholeVersion) {
  run_over(GetParam(), [](World& world) {
    constexpr int kVersions = 6;
    const SlotSpec turn{.name = "turn", .shape = {1}};
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(kSpec);
      Slot got = world.expose(turn);
      for (int version = 1; version <= kVersions; ++version) {
        auto values = counted(500, static_cast<float>(1000 * version));
        world.copy(Tensor::wrap(values.data(), DType::f32, {500}), slot.next().value());
        slot.publish().or_throw();
        got.wait().value();
      }
    } else {
      PublishedReader reader = world.attach_published(0, kSpec);
      RemoteSlot got = world.attach(0, turn);
      const Tensor into = world.allocate(DType::f32, {500}, Memory::gpu());
      for (int version = 1; version <= kVersions; ++version) {
        reader.get(into).or_throw();
        EXPECT_EQ(seen_by_application(world, into),
                  counted(500, static_cast<float>(1000 * version)));
        EXPECT_FALSE(reader.ready());
        got.put(world.allocate(DType::f32, {1})).wait().or_throw();
      }
      const EdgeReport edge = edge_of(world, "news", Role::views);
      EXPECT_EQ(edge.counters.transfers, 6U);
      EXPECT_EQ(edge.counters.bytes_copied, 0U);
      const bool by_nic = moves_by_nic(GetParam());
      const std::string way = by_nic ? "gpudirect" : GetParam() == Over::shm ? "mapped" : "staged";
      EXPECT_EQ(edge.way, way);
      EXPECT_NE(edge.reason, "");
      EXPECT_EQ(edge.counters.staged_bytes, way == "staged" ? 6 * 2000U : 0U);
      EXPECT_EQ(edge.counters.device_copies, by_nic ? 0U : 6U);
    }
    meet(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, GpuGets, testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return name_of(info.param); });

/// A rank that publishes and gets, on a GPU whose copies take tens of milliseconds.
class GetsUnderWay : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }

  void run(const std::function<void(World&, PublishedReader&, const Tensor&)>& body) {
    run_on(1, [&](World& world) {
      PublishedSlot slot = world.expose_published(kSpec);
      PublishedReader reader = world.attach_published(0, kSpec);
      auto values = counted(500);
      world.copy(Tensor::wrap(values.data(), DType::f32, {500}), slot.next().value());
      slot.publish().or_throw();
      body(world, reader, world.allocate(DType::f32, {500}, Memory::gpu(0)));
    });
  }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(1)); }
};

TEST_F(GetsUnderWay, GoOnAfterADeadline) {
  run([](World& world, PublishedReader& reader, const Tensor& into) {
    EXPECT_TRUE(tells(reader.get(into, at_once()), Code::timeout,
                      {"version 1 has come", "GPU 0 has not copied it"}));
    EXPECT_TRUE(reader.ready()) << "it is not seen";
    reader.get(into).or_throw();
    EXPECT_EQ(seen_by_application(world, into), counted(500));
    EXPECT_EQ(edge_of(world, "news", Role::views).counters.transfers, 1U) << "one read";
  });
}

TEST_F(GetsUnderWay, GiveWayToAViewOfTheirVersion) {
  run([](World& world, PublishedReader& reader, const Tensor& into) {
    EXPECT_EQ(reader.get(into, at_once()).code(), Code::timeout);
    EXPECT_EQ(reader.view().value().as<float>()[499], 499.0F);
    EXPECT_EQ(reader.get(into, Deadline::after(milliseconds(20))).code(), Code::timeout);
    reader.see_again();
    reader.get(into).or_throw();
    EXPECT_EQ(seen_by_application(world, into), counted(500));
  });
}

TEST_F(GetsUnderWay, LeaveTheVersionUnseenWhereTheGpuFails) {
  run([&](World& world, PublishedReader& reader, const Tensor& into) {
    for (const char* function : {"cuEventQuery", "cuMemcpyAsync"}) {
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(reader.get(into), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN", "news"}))
          << function;
    }
    reader.get(into).or_throw();
    EXPECT_EQ(seen_by_application(world, into), counted(500));
  });
}

TEST_F(GetsUnderWay, AreOneCopyOfTheOwnersMemory) {
  run([](World& world, PublishedReader& reader, const Tensor& into) {
    reader.get(into).or_throw();
    EXPECT_EQ(seen_by_application(world, into), counted(500));
    const EdgeReport edge = edge_of(world, "news", Role::views);
    EXPECT_EQ(edge.way, "mapped");
    EXPECT_NE(edge.reason.find("copies from the owner's memory"), std::string::npos);
    EXPECT_EQ(edge.counters.device_copies, 1U);
    EXPECT_EQ(edge.counters.staged_bytes + edge.counters.bytes_copied, 0U);
  });
}

TEST_F(GetsUnderWay, AreStagedWhereTheDriverDoesNotPinTheOwnersMemory) {
  run([&](World& world, PublishedReader& reader, const Tensor& into) {
    control()->refuse("cuMemHostRegister_v2", 1, DriverStatus::not_supported);
    for (int i = 0; i < 2; ++i) {
      reader.see_again();
      reader.get(into).or_throw();
      EXPECT_EQ(seen_by_application(world, into), counted(500));
    }
    const EdgeReport edge = edge_of(world, "news", Role::views);
    EXPECT_EQ(edge.way, "staged");
    EXPECT_NE(edge.reason.find("does not pin the owner's memory"), std::string::npos)
        << edge.reason;
    EXPECT_EQ(edge.counters.staged_bytes, 2 * 2000U);
  });
}

TEST_F(GetsUnderWay, HoldTheirVersionUntilItIsCopied) {
  run_on(1, [&](World& world) {
    PublishedSlot slot = world.expose_published({.name = "news", .shape = {500}, .depth = 1});
    PublishedReader reader = world.attach_published(0, "news");
    Tensor into = world.allocate(DType::f32, {500}, Memory::gpu(0));
    auto values = counted(500);
    world.copy(Tensor::wrap(values.data(), DType::f32, {500}), slot.next().value());
    slot.publish().or_throw();
    EXPECT_EQ(reader.get(into, at_once()).code(), Code::timeout);
    EXPECT_EQ(slot.next(Deadline::after(milliseconds(5))).status().code(), Code::timeout);
    reader.get(into).or_throw();
    EXPECT_EQ(seen_by_application(world, into), counted(500));
    EXPECT_TRUE(slot.next().ok());
    slot.publish().or_throw();
    EXPECT_EQ(reader.get(into, at_once()).code(), Code::timeout);
    reader = PublishedReader();
    EXPECT_TRUE(slot.next().ok()) << "an end that goes holds nothing";
    into = {};
    // The copy goes on, and keeps the tensor until a later one has looked after it.
    const Tensor host = world.allocate(DType::f32, {8});
    EXPECT_TRUE(soon([&] {
      world.copy(host, host);
      for (const ArenaReport& arena : world.report().arenas)
        if (arena.sort == "GPU 0") return arena.used_bytes == 0;
      return false;
    }));
  });
}

TEST_F(GetsUnderWay, RefuseWrongTargets) {
  run([](World& world, PublishedReader& reader, const Tensor& into) {
    const Tensor wide = world.allocate(DType::f32, {500, 2}, Memory::gpu(0));
    EXPECT_TRUE(tells(reader.get(into.part(0, {100})), Code::mismatch, {"f32[100]"}));
    const auto strided = Tensor(wide.slice(1, 0, 1));
    EXPECT_EQ(reader.get(strided).code(), Code::mismatch);
    EXPECT_TRUE(reader.ready());
  });
}

}  // namespace
}  // namespace weft::tests
