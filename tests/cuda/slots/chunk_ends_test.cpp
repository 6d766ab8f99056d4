// Tensors in chunks that end halfway leave nothing to those that follow.
#include "tests/cuda/slots/chunks.hpp"

namespace weft::tests {
namespace {

/// Puts of tensors in chunks that end when some chunks are at the owner, or on their way.
class HalfwayThere : public ChunkTimes {
 protected:
  /// Once the owner knows that the writer before is gone.
  static RemoteSlot attached(World& world, const SlotSpec& spec) {
    RemoteSlot remote;
    EXPECT_TRUE(soon([&] {
      try {
        remote = world.attach(0, spec);
        return true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::writer_taken) << error.what();
        return false;
      }
    }));
    return remote;
  }
  static constexpr std::size_t kCount = in_chunks(kChunks);

  void run_halfway(const std::function<void(SlotEnds&, const Tensor&)>& body) {
    for (const Memory to : {Memory::host(), Memory::gpu(1)}) {
      SCOPED_TRACE(to.text());
      toy::ToyNetwork network;
      network.paced = true;
      run_ranks(
          1,
          [&](World& world) {
            const SlotSpec spec = spec_in_chunks(kCount, to, 1);
            const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount, 7));
            const Tensor other = tensor_of(world, Memory::gpu(0), counted(kCount, 3));
            Slot slot = world.expose(spec);
            RemoteSlot remote = world.attach(0, spec);
            remote.put(tensor).wait().or_throw();
            slot.wait().value();
            control()->stop_clock(true);
            network.stop_clock();
            SlotEnds ends{*control(), network, world, slot, remote};
            ends.request = remote.put(tensor);
            body(ends, other);
            control()->stop_clock(false);
          },
          in_small_chunks(), {}, network.fabrics());
    }
  }
};

TEST_F(HalfwayThere, APutIsOnItsWay) {
  run_halfway([](SlotEnds& ends, const Tensor& other) {
    EXPECT_EQ(ends.request.cancel().code(), Code::cancelled) << "no chunk has begun";
    ends.request = ends.remote.put(other);
    ends.pass(kChunks + 3);  // behind the copies for the first one
    EXPECT_TRUE(tells(ends.request.cancel(), Code::bad_argument, {"on its way"}));
    EXPECT_EQ(ends.elements(), counted(kCount, 3));
    ends.request.wait().or_throw();
  });
}

TEST_F(HalfwayThere, ALostGpuLeavesNothingInTheNextTensor) {
  for (std::size_t times = 1; times < kChunks; ++times) {
    SCOPED_TRACE(times);
    run_halfway([&](SlotEnds& ends, const Tensor& other) {
      ends.pass(times);
      ends.control.lose(0, DriverStatus::ecc_uncorrectable);
      ends.look();
      ends.control.tick(kChunks * kChunk);  // what it was to do ends undone
      EXPECT_TRUE(tells(ends.request.wait(), Code::system, {"GPU 0", "ECC"}));
      ends.control.lose(0, DriverStatus::success);
      ends.request = ends.remote.put(other);
      EXPECT_EQ(ends.elements(), counted(kCount, 3));
      EXPECT_EQ(ends.arrival->sequence(), 2U);
    });
  }
}

TEST_F(HalfwayThere, ALostGpuLeavesNothingInAGatheredTensorOfTheHost) {
  run_halfway([&](SlotEnds& ends, const Tensor&) {
    ends.pass(4);
    ends.control.lose(0, DriverStatus::ecc_uncorrectable);
    ends.look();
    ends.control.tick(kChunks * kChunk);
    EXPECT_EQ(ends.request.wait().code(), Code::system);
    ends.control.lose(0, DriverStatus::success);
    const std::array parts{tensor_of(ends.world, {}, counted(kCount / 2, 3)),
                           tensor_of(ends.world, {}, counted(kCount / 2, 3 + kCount / 2))};
    // While its clock stands, the toy moves no put of several tensors: into host memory they go so.
    ends.network.clock_stands = ends.slot.spec().memory.is_gpu();
    ends.request = ends.remote.put(parts);
    EXPECT_EQ(ends.elements(), counted(kCount, 3));
  });
}

TEST_F(HalfwayThere, AnotherWritersTensorIsItsOwn) {
  run_halfway([&](SlotEnds& ends, const Tensor& other) {
    ends.pass(4);
    ends.request = {};
    const SlotSpec spec = spec_in_chunks(kCount, ends.slot.spec().memory, 1);
    ends.remote = {};
    for (int i = 0; i < 100; ++i) {
      ends.control.tick(kChunk);
      ends.network.tick(kChunk);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    RemoteSlot next = ends.world.attach(0, spec);
    ends.request = next.put(other);
    EXPECT_EQ(ends.elements(), counted(kCount, 3));
    ends.request = {};
  });
}

/// A writer is gone whose tensor was at the owner in part, and the owner waits on.
TEST_F(HalfwayThere, TheOwnerCopiesNothingOfAWriterThatIsGone) {
  run_halfway([](SlotEnds& ends, const Tensor& other) {
    if (ends.slot.spec().memory.is_host()) return;
    const auto at_once = [] { return Deadline::after(std::chrono::nanoseconds(1)); };
    for (std::size_t chunk = 0; chunk < 4; ++chunk) {
      ends.control.tick(kChunk);
      ends.network.tick(kChunk);
      for (int i = 0; i < 5; ++i) (void)ends.request.wait(at_once());
    }
    ends.network.tick(kChunks * kChunk);
    EXPECT_GE(ends.network.arrived, 3U);
    ends.request = {};
    ends.remote = {};
    const auto attach = [&] {
      const auto copies = ends.control.calls("cuMemcpyAsync");
      for (int i = 0; i < 5; ++i) EXPECT_FALSE(ends.slot.wait(at_once()).ok());
      EXPECT_EQ(ends.control.calls("cuMemcpyAsync"), copies);
      ends.remote = ends.world.attach(0, ends.slot.spec());
    };
    // The owner is told when the chunks are not under way any more.
    for (int i = 0; i < 100; ++i) {
      ends.control.tick(kChunk);
      ends.network.tick(kChunk);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    attach();
    ends.request = ends.remote.put(other);
    EXPECT_EQ(ends.elements(), counted(kCount, 3));
    ends.request = {};
  });
}

/// Numbers that no writer comes to leave none for the next one: its tensors come whole.
TEST_F(HalfwayThere, NumbersThatMakeNoSenseEndTheChunks) {
  toy::ToyNetwork network;
  std::atomic<bool> spoils{true};
  network.on_put = [&](p2p::PutWork& work) {
    if (spoils && work.bytes == kChunk) work.sequence = ~std::uint64_t{0};
  };
  run_ranks(
      1,
      [&](World& world) {
        const SlotSpec spec = spec_in_chunks(kCount + 1, Memory::gpu(1), 1);
        Slot slot = world.expose(spec);
        for (float first = 1; first < 4; ++first) {
          const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount + 1, first));
          RemoteSlot remote = attached(world, spec);
          remote.put(tensor).wait().or_throw();
          EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                    counted(kCount + 1, first));
          EXPECT_EQ(edge_of(world, "in", Role::puts).counters.work_requests,
                    spoils ? kChunks + 1 : 1);
          spoils = false;
        }
      },
      in_small_chunks(), {}, network.fabrics());
}

/// Writers come and go while the owner's GPU still copies for the first one: theirs are staged, as
/// a late copy would overwrite what comes by another way.
TEST_F(HalfwayThere, AWriterIsMappedOnceTheOwnersGpuCopiesForNobody) {
  run_on(1, in_small_chunks().with(Setting::gpu, "1").with(Setting::log, "off"), [&](World& world) {
    const SlotSpec spec = spec_in_chunks(kCount, Memory::gpu(1), 1);
    const Tensor tensor = tensor_of(world, Memory::gpu(1), counted(kCount, 7));
    const Tensor other = tensor_of(world, Memory::gpu(1), counted(kCount, 3));
    Slot slot = world.expose(spec);
    control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
    RemoteSlot remote = world.attach(0, spec);
    // The owner hears of it from the writer.
    const auto is_way = [&](const char* way) {
      return soon([&] { return edge_of(world, "in", Role::receives).way == way; });
    };
    ASSERT_TRUE(is_way("staged"));
    control()->stop_clock(true);
    const std::uint64_t copies = control()->calls("cuMemcpyAsync") + kChunks;
    Request request = remote.put(tensor);
    control()->tick(4 * kChunk);
    std::optional<Arrival> arrival;
    EXPECT_TRUE(soon([&] {
      look_at(request, slot, arrival);
      return control()->calls("cuMemcpyAsync") == copies + 4;
    })) << "the owner copies four chunks";
    request = {};
    for (int i = 0; i < 2; ++i) {
      remote = {};
      remote = attached(world, spec);
      EXPECT_TRUE(is_way("staged"));
    }
    control()->stop_clock(false);
    remote.put(other).wait().or_throw();
    EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(kCount, 3));
    remote = {};
    remote = attached(world, spec);
    EXPECT_TRUE(is_way("mapped"));
    remote.put(tensor).wait().or_throw();
    EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(kCount, 7));
  });
}

/// The owner's GPU copies a chunk, though the driver could not say when that ends.
TEST_F(HalfwayThere, AWriterIsNotMappedWhileACopyGoesOnThatNobodyFollows) {
  run_on(1, in_small_chunks().with(Setting::gpu, "1").with(Setting::log, "off"), [&](World& world) {
    const SlotSpec spec = spec_in_chunks(kCount, Memory::gpu(1), 1);
    const Tensor tensor = tensor_of(world, Memory::gpu(1), counted(kCount, 7));
    const Tensor other = tensor_of(world, Memory::gpu(1), counted(kCount, 3));
    Slot slot = world.expose(spec);
    control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
    RemoteSlot remote = world.attach(0, spec);
    const auto is_way = [&](const char* way) {
      return soon([&] { return edge_of(world, "in", Role::receives).way == way; });
    };
    ASSERT_TRUE(is_way("staged"));
    control()->stop_clock(true);
    const std::uint64_t copies = control()->calls("cuMemcpyAsync") + kChunks;
    Request request = remote.put(tensor);
    EXPECT_TRUE(soon([&] { return control()->calls("cuMemcpyAsync") == copies; }));
    control()->refuse("cuEventRecord", 1, DriverStatus::unknown);
    control()->tick(kChunk);
    std::optional<Arrival> arrival;
    EXPECT_TRUE(soon([&] {
      look_at(request, slot, arrival);
      return control()->calls("cuMemcpyAsync") == copies + 1;
    })) << "the owner copies a chunk";
    request = {};
    remote = {};
    remote = attached(world, spec);
    EXPECT_TRUE(is_way("staged"));
    control()->stop_clock(false);
    remote.put(other).wait().or_throw();
    EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(kCount, 3));
    remote = {};
    remote = attached(world, spec);
    EXPECT_TRUE(is_way("mapped"));
  });
}

#if defined(WEFT_TEST_FAKE_NIC)
TEST_F(HalfwayThere, ALostGpuLeavesNothingInATensorThatTheNicReads) {
  p2p::verbs::fake::FakeNetwork network(with_gpus());
  run_ranks(
      1,
      [&](World& world) {
        // The NIC does not reach the slot's GPU, so that its owner stages.
        control()->refuse("cuMemGetHandleForAddressRange", 1, DriverStatus::not_supported);
        const SlotSpec spec = spec_in_chunks(kCount, Memory::gpu(1), 1);
        Slot slot = world.expose(spec);
        RemoteSlot remote = world.attach(0, spec);
        ASSERT_EQ(edge_of(world, "in", Role::receives).way, "staged");
        const Tensor half = tensor_of(world, Memory::gpu(0), counted(kCount / 2, 7));
        const Tensor other = tensor_of(world, Memory::gpu(0), counted(kCount, 3));
        remote.put(other).wait().or_throw();
        slot.wait().value();
        ASSERT_EQ(edge_of(world, "in", Role::puts).counters.staged_bytes, 0U) << "the NIC reads it";
        // Memory that the NIC does not read: all of the tensor is staged.
        auto own = counted(kCount / 2, 7 + kCount / 2);
        const std::array parts{half, Tensor::wrap(own.data(), DType::f32, {kCount / 2})};
        control()->stop_clock(true);
        const std::uint64_t copies = control()->calls("cuMemcpyAsync") + kChunks / 2;
        Request request = remote.put(parts);
        control()->tick(2 * kChunk);
        std::optional<Arrival> arrival;
        EXPECT_TRUE(soon([&] {
          look_at(request, slot, arrival);
          return control()->calls("cuMemcpyAsync") == copies + 2;
        })) << "the owner copies two chunks";
        control()->lose(0, DriverStatus::ecc_uncorrectable);
        EXPECT_EQ(request.wait().code(), Code::system);
        control()->tick(kChunks * kChunk);  // the owner's copies end
        control()->lose(0, DriverStatus::success);
        request = remote.put(other);
        control()->stop_clock(false);
        EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()), counted(kCount, 3));
        request.wait().or_throw();
      },
      in_small_chunks().with(Setting::fabric, "verbs").with(Setting::log, "off"),
      [&](int rank) { return network.devices(rank, {{.name = "fake0", .peermem = false}}); });
  EXPECT_EQ(network.complaints() + network.left_behind(), "");
}
#endif

}  // namespace
}  // namespace weft::tests
