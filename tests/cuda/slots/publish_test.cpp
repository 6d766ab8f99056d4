// Versions that their owner fills on a GPU, over every fabric; and their copies under way.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

PublishedSpec spec(Memory memory, std::uint32_t depth = 2, Flow flow = Flow::credits) {
  return {.name = "news", .shape = {500}, .depth = depth, .flow = flow, .memory = memory};
}

void fill_with(World& world, const Tensor& tensor, float first) {
  auto values = counted(500, first);
  world.copy(Tensor::wrap(values.data(), DType::f32, {500}), tensor);
}

class GpuPublishers : public OnGpus, public testing::WithParamInterface<Over> {
 protected:
  stand_in::Options options() const override { return options_for(GetParam()); }
};

TEST_P(GpuPublishers, ShowWholeVersions) {
  run_over(GetParam(), [](World& world) {
    constexpr int kVersions = 6;
    const SlotSpec turn{.name = "turn", .shape = {1}};
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(spec(Memory::gpu()));
      EXPECT_EQ(slot.spec().memory, world.allocate(DType::f32, {1}, Memory::gpu()).memory());
      Slot got = world.expose(turn);
      for (int version = 1; version <= kVersions; ++version) {
        const Tensor tensor = slot.next().value();
        EXPECT_EQ(tensor.memory(), slot.spec().memory);
        fill_with(world, tensor, static_cast<float>(1000 * version));
        slot.publish().or_throw();
        got.wait().value();
      }
      const EdgeReport edge = edge_of(world, "news", Role::publishes);
      EXPECT_EQ(edge.counters.transfers, 6U);
      EXPECT_EQ(edge.counters.staged_bytes, 6 * 2000U);
      EXPECT_EQ(edge.counters.device_copies, 6U);
      EXPECT_EQ(edge.way, "staged");
      EXPECT_NE(edge.reason, "");
    } else {
      // Where the owner fills it is the owner's affair.
      PublishedReader reader = world.attach_published(0, spec({}));
      RemoteSlot got = world.attach(0, turn);
      const Tensor on_gpu = world.allocate(DType::f32, {500}, Memory::gpu());
      for (int version = 1; version <= kVersions; ++version) {
        const auto wanted = counted(500, static_cast<float>(1000 * version));
        if (version % 2 == 0) {
          reader.get(on_gpu).or_throw();
          EXPECT_EQ(seen_by_application(world, on_gpu), wanted);
        } else {
          EXPECT_EQ(elements_of(world, reader.view().value().tensor()), wanted);
        }
        got.put(world.allocate(DType::f32, {1})).wait().or_throw();
      }
    }
    meet(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, GpuPublishers, testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return name_of(info.param); });

/// A rank that publishes and reads, on a GPU whose copies take tens of milliseconds.
class PublishesUnderWay : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }

  void run(const std::function<void(World&, PublishedSlot&, PublishedReader&)>& body,
           std::uint32_t depth = 2, Flow flow = Flow::credits) {
    run_on(1, [&](World& world) {
      PublishedSlot slot = world.expose_published(spec(Memory::gpu(0), depth, flow));
      PublishedReader reader = world.attach_published(0, "news");
      body(world, slot, reader);
    });
  }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(1)); }
  static std::vector<float> viewed(World& world, PublishedReader& reader) {
    return elements_of(world, reader.view().value().tensor());
  }
};

TEST_F(PublishesUnderWay, OutliveTheirDeadline) {
  run([](World& world, PublishedSlot& slot, PublishedReader& reader) {
    EXPECT_EQ(slot.publish(at_once()).code(), Code::bad_argument) << "there is no buffer";
    fill_with(world, slot.next().value(), 5);
    EXPECT_TRUE(tells(slot.publish(at_once()), Code::timeout,
                      {"GPU 0 has not copied version 1", "news", "publish again"}));
    EXPECT_FALSE(reader.ready());
    slot.publish().or_throw();
    EXPECT_EQ(viewed(world, reader), counted(500, 5));
    EXPECT_EQ(edge_of(world, "news", Role::publishes).counters.device_copies, 1U) << "one copy";
  });
}

// The program fills the buffer while the copy that counts no more still reads it.
TEST_F(PublishesUnderWay, CountNoMoreForWhoAsksForTheBufferAgain) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer reports the race between the copy and the new contents";
#endif
  run([](World& world, PublishedSlot& slot, PublishedReader& reader) {
    for (float first = 5; first < 10; ++first) {
      fill_with(world, slot.next().value(), 1000);
      EXPECT_EQ(slot.publish(at_once()).code(), Code::timeout);
      fill_with(world, slot.next().value(), first);
      slot.publish().or_throw();
      EXPECT_EQ(viewed(world, reader), counted(500, first));
    }
  });
}

TEST_F(PublishesUnderWay, PublishNothingWhereTheGpuFails) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    fill_with(world, slot.next().value(), 5);
    for (const char* function :
         {"cuCtxPushCurrent_v2", "cuMemcpyAsync", "cuEventRecord", "cuEventQuery"}) {
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(
          tells(slot.publish(), Code::system, {"publish", "GPU 0", "CUDA_ERROR_UNKNOWN", "news"}))
          << function;
    }
    control()->lose(0, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(tells(slot.publish(), Code::system, {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
    control()->lose(0, DriverStatus::success);
    EXPECT_FALSE(reader.ready());
    slot.publish().or_throw();
    EXPECT_EQ(viewed(world, reader), counted(500, 5));
  });
}

TEST_F(PublishesUnderWay, OutliveTheirSlot) {
  run_on(1, [&](World& world) {
    {
      PublishedSlot slot = world.expose_published(spec(Memory::gpu(0)));
      (void)slot.next().value();
      EXPECT_EQ(slot.publish(at_once()).code(), Code::timeout);
    }
    // Their memory is free once a later copy has looked after them.
    const Tensor host = world.allocate(DType::f32, {8});
    EXPECT_TRUE(soon([&] {
      world.copy(host, host);
      const Report report = world.report();
      return report.arenas[2].used_bytes == 0 && report.arenas[4].used_bytes == 0;
    }));
  });
}

TEST_F(PublishesUnderWay, WaitForReadersOfTheirOnlyBuffer) {
  run(
      [](World& world, PublishedSlot& slot, PublishedReader& reader) {
        fill_with(world, slot.next().value(), 5);
        slot.publish().or_throw();
        {
          const Arrival arrival = reader.view().value();
          EXPECT_EQ(slot.next(Deadline::after(milliseconds(5))).code(), Code::timeout);
          EXPECT_EQ(elements_of(world, arrival.tensor()), counted(500, 5));
        }
        fill_with(world, slot.next().value(), 6);
        slot.publish().or_throw();
        EXPECT_EQ(viewed(world, reader), counted(500, 6));
      },
      1);
}

TEST_F(PublishesUnderWay, WorkInASynchronousSlot) {
  run(
      [](World& world, PublishedSlot& slot, PublishedReader& reader) {
        for (float first = 1; first < 5; ++first) {
          fill_with(world, slot.next().value(), first);
          slot.publish().or_throw();
          EXPECT_EQ(viewed(world, reader), counted(500, first));
        }
      },
      2, Flow::unsafe_synchronous);
}

TEST_F(PublishesUnderWay, CostOneCopyInTheSteadyState) {
  control()->restart({});
  run([&](World&, PublishedSlot& slot, PublishedReader& reader) {
    expect_steady(*control(), 1, [&] {
      (void)slot.next().value();
      slot.publish().or_throw();
      (void)reader.view().value();
    });
  });
}

TEST_F(PublishesUnderWay, RefuseAGpuThatIsNotThere) {
  run_on(1, [&](World& world) {
    EXPECT_TRUE(tells(thrown_by([&] { (void)world.expose_published(spec(Memory::gpu(9))); }),
                      Code::bad_argument, {"no GPU 9", "news"}));
    PublishedSlot empty =
        world.expose_published({.name = "empty", .shape = {0}, .memory = Memory::gpu(0)});
    EXPECT_TRUE(empty.next().value().memory().is_gpu());
    empty.publish().or_throw();
  });
}

}  // namespace
}  // namespace weft::tests
