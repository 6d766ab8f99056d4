// Gets that NICs read straight into a GPU's memory: what they cost, that no torn version passes,
// and when they are staged.
#include <thread>

#include "tests/cuda/slots/mapped.hpp"
#include "tests/cuda/slots/streams.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {
namespace {

using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::NicCounts;
using p2p::verbs::fake::NicSpec;

constexpr std::size_t kFetched = 3000;

PublishedSpec direct_spec(std::uint32_t depth = 2) {
  return {.name = "news", .shape = {kFetched}, .depth = depth};
}

class DirectGets : public OnStandInStreams {
 protected:
  stand_in::Options options() const override { return with_flushes(true); }

  void run(int ranks, const NicSpec& nic, const std::function<void(World&)>& body,
           const Config& more = settings(), std::uint64_t seed = 1) {
    network_ = std::make_unique<FakeNetwork>(with_gpus(seed));
    run_ranks(ranks, body, more.with(Setting::fabric, "verbs").with(Setting::log, "off"),
              [&](int rank) { return network_->devices(rank, {nic}); });
    EXPECT_EQ(network_->complaints() + network_->left_behind(), "");
    network_.reset();
  }
  /// A rank that publishes and gets from itself.
  void run_alone(const NicSpec& nic,
                 const std::function<void(World&, PublishedSlot&, PublishedReader&, Tensor&)>& body,
                 const Config& more = settings()) {
    run(
        1, nic,
        [&](World& world) {
          Tensor into = world.allocate(DType::f32, {kFetched}, Memory::gpu(0));
          PublishedSlot slot = world.expose_published(direct_spec());
          PublishedReader reader = world.attach_published(0, "news");
          body(world, slot, reader, into);
        },
        more);
  }
  FakeNetwork& network() { return *network_; }
  static void publish(World& world, PublishedSlot& slot, float first) {
    auto values = counted(kFetched, first);
    world.copy(Tensor::wrap(values.data(), DType::f32, {kFetched}), slot.next().value());
    slot.publish().or_throw();
  }

 private:
  std::unique_ptr<FakeNetwork> network_;
};

TEST_F(DirectGets, AreThreeReadsAndAFlush) {
  run_alone({}, [&](World& world, PublishedSlot& slot, PublishedReader& reader, Tensor& into) {
    publish(world, slot, 1);
    reader.get(into).or_throw();
    EXPECT_EQ(seen_by_application(world, into), counted(kFetched, 1));
    const NicCounts before = network().counts(0);
    expect_steady(*control(), 0, [&] {
      (void)slot.next().value();
      slot.publish().or_throw();
      reader.get(into).or_throw();
    });
    EXPECT_EQ(network().counts(0).reads - before.reads, 3 * 14U) << "the words before and behind";
    const EdgeReport edge = edge_of(world, "news", Role::views);
    EXPECT_TRUE(has(edge, "gpudirect", "the NIC reaches"));
    EXPECT_EQ(edge.counters.gpu_flushes, 15U);
    EXPECT_EQ(edge.counters.staged_bytes + edge.counters.bytes_copied, 0U);
    EXPECT_EQ(edge.counters.device_copies, 0U);
  });
}

TEST_F(DirectGets, BehindAStreamToo) {
  run_alone({}, [&](World& world, PublishedSlot& slot, PublishedReader& reader, Tensor& into) {
    OwnStream own(world, 0, kFetched, 4);
    for (std::size_t i = 0; i < 4; ++i) {
      publish(world, slot, static_cast<float>(i));
      EXPECT_OK_STATUS(reader.get(into, own.get()));
      own.read(i, into);
      own.synchronize();
      EXPECT_EQ(own.elements(i), counted(kFetched, static_cast<float>(i)));
    }
    const EdgeReport edge = edge_of(world, "news", Role::views);
    EXPECT_TRUE(has(edge, "gpudirect", "the NIC reaches"));
    EXPECT_EQ(edge.counters.gpu_flushes, 4U);
    EXPECT_EQ(edge.counters.staged_bytes, 0U);
  });
}

/// A planted defect: without a flush the application does not see the version.
TEST_F(DirectGets, ThatAreNotFlushedAreNotSeen) {
  run_alone({}, [&](World& world, PublishedSlot& slot, PublishedReader& reader, Tensor& into) {
    publish(world, slot, 1);
    reader.get(into).or_throw();
    control()->ignore_flushes(true);
    publish(world, slot, 2);
    reader.get(into).or_throw();
    EXPECT_NE(seen_by_application(world, into), counted(kFetched, 2));
    control()->ignore_flushes(false);
  });
}

TEST_F(DirectGets, AreWholeWhateverTheOwnerPublishesMeanwhile) {
  constexpr int kMany = 300;
  run(
      2, {.faults = {.delayed = 0.2, .late = 0.2, .scattered = 0.3}},
      [&](World& world) {
        const SlotSpec turn{.name = "turn", .shape = {1}};
        if (world.rank() == 0) {
          PublishedSlot slot = world.expose_published(direct_spec());
          meet(world, "attached");
          for (int version = 1; version <= kMany; ++version)
            publish(world, slot, static_cast<float>(version));
          meet(world, "seen");
        } else {
          PublishedReader reader = world.attach_published(0, direct_spec());
          const Tensor into = world.allocate(DType::f32, {kFetched}, Memory::gpu(0));
          meet(world, "attached");
          for (float first = 0; first < kMany;) {
            reader.get(into).or_throw();
            const auto seen = seen_by_application(world, into);
            EXPECT_GT(seen.front(), first);
            first = seen.front();
            ASSERT_EQ(seen, counted(kFetched, first));
          }
          meet(world, "seen");
        }
        meet(world);
      },
      settings(), 7);
}

TEST_F(DirectGets, GoOnAfterADeadline) {
  run(2, {}, [&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(direct_spec());
      publish(world, slot, 1);
      meet(world, "first");
      publish(world, slot, 2);
      meet(world);
    } else {
      PublishedReader reader = world.attach_published(0, direct_spec());
      const Tensor into = world.allocate(DType::f32, {kFetched}, Memory::gpu(0));
      const Tensor other = world.allocate(DType::f32, {kFetched}, Memory::gpu(0));
      reader.get(into).or_throw();
      meet(world, "first");
      EXPECT_TRUE(soon([&] { return reader.ready(); }));
      const std::uint64_t reads = network().counts(1).reads;
      network().hold(1);
      const Deadline at_once = Deadline::after(std::chrono::milliseconds(5));
      EXPECT_EQ(reader.get(into, at_once).code(), Code::timeout);
      EXPECT_EQ(reader.get(other, Deadline::after(std::chrono::milliseconds(5))).code(),
                Code::timeout);
      network().hold(1, false);
      reader.get(other).or_throw();
      EXPECT_EQ(seen_by_application(world, other), counted(kFetched, 2));
      EXPECT_GE(network().counts(1).reads - reads, 3U);
      EXPECT_EQ(edge_of(world, "news", Role::views).counters.staged_bytes, 0U);
      meet(world);
    }
  });
}

TEST_F(DirectGets, AreStagedWhereTheNicDoesNotReach) {
  const NicSpec unable{.dma_buf = false, .peermem = false};
  for (const bool by_stream : {false, true})
    run_alone(unable,
              [&](World& world, PublishedSlot& slot, PublishedReader& reader, Tensor& into) {
                OwnStream own(world, 0, kFetched, 1);
                publish(world, slot, 1);
                EXPECT_OK_STATUS(by_stream ? reader.get(into, own.get()) : reader.get(into));
                own.synchronize();
                EXPECT_EQ(seen_by_application(world, into), counted(kFetched, 1));
                const EdgeReport edge = edge_of(world, "news", Role::views);
                EXPECT_TRUE(has(edge, "staged", "the NIC does not reach"));
                EXPECT_EQ(edge.counters.staged_bytes, 4 * kFetched);
              });
}

TEST_F(DirectGets, AreRequiredByASetting) {
  const Config required = settings().with(Setting::require, "gdr");
  run_alone(
      {},
      [&](World& world, PublishedSlot& slot, PublishedReader& reader, Tensor& into) {
        publish(world, slot, 1);
        reader.get(into).or_throw();
      },
      required);
  const NicSpec unable{.dma_buf = false, .peermem = false};
  run_alone(
      unable,
      [&](World& world, PublishedSlot& slot, PublishedReader& reader, Tensor& into) {
        OwnStream own(world, 0, kFetched, 1);
        publish(world, slot, 1);
        for (int i = 0; i < 2; ++i)
          EXPECT_TRUE(tells(reader.get(into), Code::unreachable,
                            {"get", "WEFT_REQUIRE=gdr", "ibv_reg_mr", "fake0"}));
        EXPECT_TRUE(tells(reader.get(into, own.get()), Code::unreachable, {"WEFT_REQUIRE=gdr"}));
        const Tensor host = world.allocate(DType::f32, {kFetched});
        EXPECT_OK_STATUS(reader.get(host));
      },
      required);
}

}  // namespace
}  // namespace weft::tests

#endif
