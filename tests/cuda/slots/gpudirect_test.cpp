// Tensors that NICs read from a GPU's memory and write there: what they cost, by which
// registration, what has to be flushed, and when they are staged.
#include "tests/cuda/slots/mapped.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {
namespace {

using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::NicCounts;
using p2p::verbs::fake::NicSpec;
using p2p::verbs::fake::VerbsCall;

Memory on_gpu() { return Memory::gpu(0); }

class GpuDirect : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's memory";
  }
  stand_in::Options options() const override { return with_flushes(true); }

  /// A job over NICs of that kind, whose network a body may look at.
  void run(int ranks, const NicSpec& nic, const std::function<void(World&)>& body,
           const Config& more = settings(), std::uint64_t seed = 1) {
    network_ = std::make_unique<FakeNetwork>(with_gpus(seed));
    run_ranks(ranks, body, more.with(Setting::fabric, "verbs").with(Setting::log, "off"),
              [&](int rank) { return network_->devices(rank, {nic}); });
    EXPECT_EQ(network_->complaints() + network_->left_behind(), "");
    network_.reset();
  }
  FakeNetwork& network() { return *network_; }
  static std::uint64_t registrations(const NicCounts& counts) {
    return counts.calls[static_cast<std::size_t>(VerbsCall::reg_mr)];
  }

  /// A rank puts from its GPU to its own: both ends must say that tensors go that way.
  void expect_way(const NicSpec& nic, const std::string& way, const std::string& words,
                  const Config& more = settings()) {
    run(
        1, nic,
        [&](World& world) {
          Slot slot = world.expose(spec_on(on_gpu()));
          RemoteSlot remote = world.attach(0, spec_on({}));
          for (float first = 1; first <= 4; ++first) {
            Request request = remote.put(tensor_of(world, on_gpu(), counted(kElements, first)));
            EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                      counted(kElements, first));
            request.wait().or_throw();
          }
          for (const Role role : {Role::puts, Role::receives}) {
            EXPECT_TRUE(has(edge_of(world, "in", role), way, words));
            EXPECT_EQ(edge_of(world, "in", role).counters.staged_bytes,
                      way == "staged" ? 4U * 4 * kElements : 0U);
          }
        },
        more);
  }

 private:
  std::unique_ptr<FakeNetwork> network_;
};

TEST_F(GpuDirect, RegistersByADmaBufOrByAddressOrStages) {
  expect_way({}, "gpudirect", "the NIC reaches");
  expect_way({.peermem = false}, "gpudirect", "the NIC reaches");
  expect_way({.dma_buf = false}, "gpudirect", "the NIC reaches");
  expect_way({.dma_buf = false, .peermem = false}, "staged", "GPU's memory");
}

TEST_F(GpuDirect, StagesWhereTheDriverGivesNothing) {
  control()->refuse("cuMemGetHandleForAddressRange", 1, DriverStatus::not_supported);
  expect_way({.peermem = false}, "staged", "GPU's memory");
  expect_way({}, "staged", "GPU's memory", settings().with(Setting::gdr_level, "never"));
}

TEST_F(GpuDirect, StagesWhereThePageIsNotSeenOrCantBeFlushed) {
  expect_way({}, "staged", "GPU's memory", settings().with(Setting::gpu_flush, "none"));
  expect_way({}, "gpudirect", "the NIC reaches", settings().with(Setting::gpu_flush, "read"));
  control()->refuse("cuFlushGPUDirectRDMAWrites", 1, DriverStatus::not_supported);
  expect_way({}, "staged", "GPU's memory");
}

TEST_F(GpuDirect, APutIsOneRequestAndOneFlush) {
  run(1, {}, [&](World& world) {
    Slot slot = world.expose(spec_on(on_gpu()));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const Tensor from = tensor_of(world, on_gpu(), counted(kElements));
    const auto turn = [&] {
      Request request = remote.put(from);
      request.wait().or_throw();
      slot.wait().value();
    };
    turn();
    const NicCounts before = network().counts(0);
    const std::uint64_t exports = control()->calls("cuMemGetHandleForAddressRange");
    expect_steady(*control(), 0, turn);
    const NicCounts after = network().counts(0);
    constexpr std::uint64_t kTurns = 14;  // of expect_steady
    // A turn: the put, and the owner's credit.
    EXPECT_EQ(after.writes_with_immediate - before.writes_with_immediate, 2 * kTurns);
    EXPECT_EQ(after.sends - before.sends, 0U);
    EXPECT_EQ(after.reads - before.reads, 0U);
    EXPECT_EQ(registrations(after) - registrations(before), 0U);
    EXPECT_EQ(control()->calls("cuMemGetHandleForAddressRange") - exports, 0U);
    const EdgeReport puts = edge_of(world, "in", Role::puts);
    const EdgeReport receives = edge_of(world, "in", Role::receives);
    EXPECT_EQ(puts.counters.work_requests, kTurns + 1);
    EXPECT_EQ(receives.counters.gpu_flushes, kTurns + 1);
    for (const EdgeReport& edge : {puts, receives}) {
      EXPECT_EQ(edge.counters.staged_bytes + edge.counters.bytes_copied, 0U);
      EXPECT_EQ(edge.counters.device_copies, 0U);
    }
  });
}

TEST_F(GpuDirect, ADynamicTensorIsOneWriteAndOneRead) {
  run(1, {}, [&](World& world) {
    SlotSpec spec = spec_on(on_gpu());
    spec.placement = Placement::dynamic;
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    const Tensor from = tensor_of(world, on_gpu(), counted(kElements));
    const auto turn = [&] {
      Request request = remote.put(from);
      slot.wait().value();
      request.wait().or_throw();
    };
    turn();
    const NicCounts before = network().counts(0);
    expect_steady(*control(), 0, turn);
    const NicCounts after = network().counts(0);
    // A turn: the record, the owner's read, its credit.
    EXPECT_EQ(after.writes_with_immediate - before.writes_with_immediate, 2 * 14U);
    EXPECT_EQ(after.reads - before.reads, 14U);
    EXPECT_EQ(registrations(after) - registrations(before), 0U);
    EXPECT_EQ(edge_of(world, "in", Role::receives).counters.gpu_flushes, 15U);
    EXPECT_EQ(edge_of(world, "in", Role::receives).counters.staged_bytes, 0U);
    EXPECT_EQ(edge_of(world, "in", Role::puts).counters.staged_bytes, 0U);
  });
}

TEST_F(GpuDirect, SmallTensorsOfAGpuAreNotTakenAlongInTheRequest) {
  run(1, {}, [&](World& world) {
    SlotSpec spec = spec_on(on_gpu());
    spec.shape = {2};
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    const Tensor from = tensor_of(world, on_gpu(), counted(2, 5));
    const std::uint64_t before = network().counts(0).inlined;
    remote.put(from).wait().or_throw();
    const Arrival arrival = slot.wait().value();  // its credit is a request with bytes
    EXPECT_EQ(network().counts(0).inlined, before);
    EXPECT_EQ(seen_by_application(world, arrival.tensor()), counted(2, 5));
  });
}

TEST_F(GpuDirect, ArrivalsOfABatchShareAFlush) {
  run(1, {}, [&](World& world) {
    Slot slot = world.expose(spec_on(on_gpu(), 4));
    RemoteSlot remote = world.attach(0, spec_on({}, 4));
    const Tensor from = tensor_of(world, on_gpu(), counted(kElements));
    const auto flushes = [&] { return edge_of(world, "in", Role::receives).counters.gpu_flushes; };
    // Threads look in between, so not every try shows it.
    bool is_shared = false;
    for (int tries = 0; tries < 200 && !is_shared; ++tries) {
      const std::uint64_t before = flushes();
      network().hold(0);
      std::vector<Request> requests;
      for (int i = 0; i < 4; ++i) requests.push_back(remote.put(from));
      network().hold(0, false);
      for (int i = 0; i < 4; ++i) slot.wait().value();
      for (Request& request : requests) request.wait().or_throw();
      EXPECT_LE(flushes() - before, 4U);
      is_shared = flushes() - before < 4;
    }
    EXPECT_TRUE(is_shared);
  });
}

TEST_F(GpuDirect, NothingIsFlushedForHostMemoryOrWhereTheDriverOrdersWrites) {
  run(1, {}, [&](World& world) {
    Slot on = world.expose(spec_on(on_gpu()));
    SlotSpec host = spec_on({});
    host.name = "host";
    Slot off = world.expose(host);
    RemoteSlot to_gpu = world.attach(0, spec_on({}));
    RemoteSlot to_host = world.attach(0, host);
    const std::uint64_t before = control()->calls("cuFlushGPUDirectRDMAWrites");
    to_host.put(tensor_of(world, on_gpu(), counted(kElements, 3))).wait().or_throw();
    EXPECT_EQ(elements_of(world, off.wait().value().tensor()), counted(kElements, 3));
    EXPECT_EQ(control()->calls("cuFlushGPUDirectRDMAWrites"), before);
  });
  ASSERT_EQ(control()->restart({}), std::vector<std::string>{});
  expect_way({}, "gpudirect", "the NIC reaches");
  EXPECT_EQ(control()->calls("cuFlushGPUDirectRDMAWrites"), 0U);
}

/// A planted defect: without a flush the application does not see the tensor, so the tests of this
/// folder would fail.
TEST_F(GpuDirect, ATensorThatIsNotFlushedIsNotSeen) {
  run(1, {}, [&](World& world) {
    Slot slot = world.expose(spec_on(on_gpu(), 1));
    RemoteSlot remote = world.attach(0, spec_on({}, 1));
    control()->ignore_flushes(true);
    remote.put(tensor_of(world, on_gpu(), counted(kElements, 7))).wait().or_throw();
    const Arrival arrival = slot.wait().value();
    EXPECT_NE(seen_by_application(world, arrival.tensor()), counted(kElements, 7));
    control()->ignore_flushes(false);
  });
}

TEST_F(GpuDirect, AFlushThatFailsEndsThePath) {
  Meeting told(2);
  run(2, {}, [&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec_on(on_gpu(), 1));
      {
        const Arrival first = slot.wait().value();  // the next put waits for it
        control()->refuse("cuFlushGPUDirectRDMAWrites", 1, DriverStatus::unknown);
      }
      EXPECT_TRUE(tells(slot.wait().status(), Code::system, {"GPU", "can't be flushed"}));
    } else {
      RemoteSlot remote = world.attach(0, spec_on({}, 1));
      const Tensor from = tensor_of(world, on_gpu(), counted(kElements));
      remote.put(from).wait().or_throw();
      (void)remote.put(from).wait();
    }
    told.wait();
  });
}

TEST_F(GpuDirect, MemoryOfTheApplicationIsStagedInItsTurn) {
  run(1, {}, [&](World& world) {
    const OwnContext own(driver());
    DevicePointer pointer = 0;
    ASSERT_OK(driver().allocate(&pointer, 4 * kElements));
    const Tensor wrapped =
        Tensor::wrap(reinterpret_cast<void*>(pointer), DType::f32, {kElements}, on_gpu());
    Slot slot = world.expose(spec_on(on_gpu()));
    RemoteSlot remote = world.attach(0, spec_on({}));
    for (float first = 1; first <= 4; ++first) {
      const Tensor other = tensor_of(world, on_gpu(), counted(kElements, first));
      const bool is_wrapped = first == 2 || first == 4;
      if (is_wrapped) world.copy(other, wrapped);
      remote.put(is_wrapped ? wrapped : other).wait().or_throw();
      EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                counted(kElements, first));
    }
    EXPECT_TRUE(has(edge_of(world, "in", Role::puts), "staged", "the tensor's GPU"));
    EXPECT_EQ(edge_of(world, "in", Role::puts).counters.staged_bytes, 2U * 4 * kElements);
    EXPECT_EQ(edge_of(world, "in", Role::receives).counters.staged_bytes, 0U);
    ASSERT_OK(driver().free(pointer));
  });
}

TEST_F(GpuDirect, WritersInTurnEachHaveTheirWay) {
  run(2, {}, [&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec_on(on_gpu(), 4));
      for (float first = 1; first <= 6; ++first)
        EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                  counted(kElements, first));
      EXPECT_TRUE(has(edge_of(world, "in", Role::receives), "gpudirect", "the NIC reaches"));
    } else {
      for (float first = 1; first <= 6; first += 2) {
        RemoteSlot remote = world.attach(0, spec_on({}, 4));
        remote.put(tensor_of(world, on_gpu(), counted(kElements, first))).wait().or_throw();
        remote.put(tensor_of(world, {}, counted(kElements, first + 1))).wait().or_throw();
      }
    }
    meet(world);
  });
}

TEST_F(GpuDirect, LargeTensorsGoInPiecesByEachQueuePair) {
  for (const char* pairs : {"1", "4"}) {
    run(
        2, {.faults = {.delayed = 0.2, .late = 0.2, .scattered = 0.3}},
        [&](World& world) {
          constexpr std::int64_t kMany = 1'200'003;
          const SlotSpec spec{.name = "in", .shape = {kMany}, .depth = 2, .memory = on_gpu()};
          if (world.rank() == 0) {
            Slot slot = world.expose(spec);
            for (float first = 1; first <= 3; ++first)
              EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                        counted(kMany, first));
          } else {
            RemoteSlot remote = world.attach(0, spec);
            for (float first = 1; first <= 3; ++first)
              remote.put(tensor_of(world, on_gpu(), counted(kMany, first))).wait().or_throw();
          }
          meet(world);
        },
        settings().with(Setting::qps_per_peer, pairs), 7);
  }
}

TEST_F(GpuDirect, WhereItIsRequiredStagingIsAnError) {
  const Config required = settings().with(Setting::require, "gdr");
  expect_way({}, "gpudirect", "the NIC reaches", required);
  run(
      1, {.dma_buf = false, .peermem = false},
      [&](World& world) {
        Slot slot = world.expose(spec_on(on_gpu()));
        EXPECT_TRUE(tells(thrown_by([&] { world.attach(0, spec_on({})); }), Code::unreachable,
                          {"WEFT_REQUIRE=gdr", "ibv_reg_mr", "fake0"}));
        SlotSpec host = spec_on({});
        host.name = "host";
        Slot off = world.expose(host);
        RemoteSlot remote = world.attach(0, host);
        const Tensor from = tensor_of(world, on_gpu(), counted(kElements));
        EXPECT_TRUE(tells(remote.put(from).wait(), Code::unreachable,
                          {"WEFT_REQUIRE=gdr", "ibv_reg_mr", "fake0"}));
        remote.put(tensor_of(world, {}, counted(kElements))).wait().or_throw();
        EXPECT_TRUE(off.wait().ok());
        SlotSpec sizes = spec_on(on_gpu());
        sizes.name = "sizes";
        sizes.placement = Placement::dynamic;
        Slot dynamic = world.expose(sizes);
        RemoteSlot to = world.attach(0, sizes);
        Request request = to.put(tensor_of(world, {}, counted(kElements)));
        EXPECT_TRUE(tells(dynamic.wait().status(), Code::unreachable, {"WEFT_REQUIRE=gdr"}));
      },
      required);
}

}  // namespace
}  // namespace weft::tests

#endif
