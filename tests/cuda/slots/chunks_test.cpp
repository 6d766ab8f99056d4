// Tensors that are staged go in chunks: the way of one overlaps the copies of others, at both ends.
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {
namespace {

constexpr std::size_t kChunk = 4096;
constexpr std::size_t kChunks = 8;
/// Elements of that many chunks.
constexpr std::size_t in_chunks(std::size_t chunks) { return chunks * kChunk / sizeof(float); }

Config in_small_chunks() { return settings().with(Setting::gpu_staging, "4k"); }

SlotSpec spec_of(std::size_t elements, Memory memory, std::uint32_t depth = 2) {
  return {.name = "in",
          .shape = {static_cast<std::int64_t>(elements)},
          .depth = depth,
          .memory = memory};
}

/// Lets both ends do all that they can.
void look_at(Request& request, Slot& slot, std::optional<Arrival>& arrival) {
  const auto at_once = [] { return Deadline::after(std::chrono::nanoseconds(1)); };
  for (int i = 0; i < 5 && !arrival; ++i) {
    // The progress thread may be at the put: waiting ends after that, a test alone does not.
    if (!request.test()) (void)request.wait(at_once());
    auto got = slot.wait(at_once());
    if (got.ok()) arrival = std::move(got).value();
  }
}

/// A machine in which a copy of a chunk takes as long as a fabric takes for it, and all else no
/// time. One thread asks everything after each such time.
class ChunkTimes : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  void TearDown() override {
    if (control() != nullptr) control()->stop_clock(false);
    OnGpus::TearDown();
  }
  stand_in::Options options() const override {
    return {.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(0)};
  }
  /// How many such times a tensor takes from the call of put to the end of the owner's wait.
  std::size_t times(Memory from, Memory to, const Config& config) {
    std::size_t count = 0;
    toy::ToyNetwork network;
    network.paced = true;
    run_ranks(
        1,
        [&](World& world) {
          const SlotSpec spec = spec_of(in_chunks(kChunks), to);
          const Tensor first = tensor_of(world, from, counted(in_chunks(kChunks), 7));
          const Tensor second = tensor_of(world, from, counted(in_chunks(kChunks), 3));
          Slot slot = world.expose(spec);
          RemoteSlot remote = world.attach(0, spec);
          remote.put(first).wait().or_throw();
          EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                    counted(in_chunks(kChunks), 7));
          control()->stop_clock(true);
          network.stop_clock();
          Request request = remote.put(second);
          std::optional<Arrival> arrival;
          while (!arrival && count < 10 * kChunks) {
            control()->tick(kChunk);
            network.tick(kChunk);
            ++count;
            look_at(request, slot, arrival);
          }
          ASSERT_TRUE(arrival.has_value());
          control()->stop_clock(false);
          request.wait().or_throw();
          EXPECT_EQ(seen_by_application(world, arrival->tensor()), counted(in_chunks(kChunks), 3));
        },
        config, {}, network.fabrics());
    return count;
  }
};

TEST_F(ChunkTimes, AreAsManyAsChunksAndTwoFromGpuToGpu) {
  EXPECT_LE(times(Memory::gpu(0), Memory::gpu(1), in_small_chunks()), kChunks + 2);
  EXPECT_EQ(times(Memory::gpu(0), Memory::gpu(1), settings()), 3 * kChunks) << "in one chunk";
}

TEST_F(ChunkTimes, AreAsManyAsChunksAndOneWhereOneEndStages) {
  EXPECT_LE(times(Memory::gpu(0), {}, in_small_chunks()), kChunks + 1);
  EXPECT_LE(times({}, Memory::gpu(1), in_small_chunks()), kChunks + 1);
}

/// Both ends of a slot in one thread, while the clocks stand.
struct SlotEnds {
  stand_in::Control& control;
  toy::ToyNetwork& network;
  World& world;
  Slot& slot;
  RemoteSlot& remote;
  Request request{};
  std::optional<Arrival> arrival{};

  /// As many chunk times pass, or fewer if the tensor is there before.
  void pass(std::size_t times) {
    for (std::size_t i = 0; i < times && !arrival; ++i) {
      control.tick(kChunk);
      network.tick(kChunk);
      look();
    }
  }
  void look() { look_at(request, slot, arrival); }
  /// The elements of the tensor that comes at last.
  std::vector<float> elements() {
    pass(10 * kChunks);
    if (!arrival) return {};
    control.stop_clock(false);
    return seen_by_application(world, arrival->tensor());
  }
};

/// Puts of tensors in chunks that end when some chunks are at the owner, or on their way.
class HalfwayThere : public ChunkTimes {
 protected:
  static constexpr std::size_t kCount = in_chunks(kChunks);

  void run_halfway(const std::function<void(SlotEnds&, const Tensor&)>& body) {
    for (const Memory to : {Memory::host(), Memory::gpu(1)}) {
      SCOPED_TRACE(to.text());
      toy::ToyNetwork network;
      network.paced = true;
      run_ranks(
          1,
          [&](World& world) {
            const SlotSpec spec = spec_of(kCount, to, 1);
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
    const SlotSpec spec = spec_of(kCount, ends.slot.spec().memory, 1);
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

std::string name_of(Memory from, Memory to) { return " from " + from.text() + " to " + to.text(); }

/// Over each fabric, with copies that take some time.
class InChunks : public OnGpus {
 protected:
  stand_in::Options options() const override {
    return without_exports({.delay = std::chrono::milliseconds(1)});
  }
};

/// Both ends, in all sizes about that of a chunk.
TEST_F(InChunks, TensorsComeWholeOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (moves_by_nic(fabric)) continue;
    if (control() != nullptr) control()->restart(without_exports(options_for(fabric)));
    SCOPED_TRACE(name_of(fabric));
    run_over(fabric,
             [&](World& world) {
               for (const std::size_t elements : {in_chunks(1), in_chunks(1) + 1, in_chunks(2),
                                                  in_chunks(3) - 1, in_chunks(5) + 17})
                 for (const bool writer_stages : {true, false})
                   for (const bool owner_stages : {true, false}) {
                     const Memory to = owner_stages ? Memory::gpu(0) : Memory::host();
                     const Memory from = writer_stages ? Memory::gpu(1) : Memory::host();
                     SlotSpec spec = spec_of(elements, to);
                     // A writer may be ahead of the owner's end: names are for one round.
                     spec.name = "in " + std::to_string(elements) + name_of(from, to);
                     if (world.rank() == 0) {
                       Slot slot = world.expose(spec);
                       for (float first = 0; first < 5; ++first)
                         EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                                   counted(elements, first))
                             << elements;
                       meet(world, "after " + spec.name);
                       continue;
                     }
                     const Tensor tensor = tensor_of(world, from, counted(elements));
                     RemoteSlot remote = world.attach(0, spec);
                     for (float first = 0; first < 5; ++first) {
                       Tensor next =
                           first == 0 ? tensor : tensor_of(world, from, counted(elements, first));
                       remote.put(next).wait().or_throw();
                     }
                     const auto counters = edge_of(world, spec.name, Role::puts).counters;
                     EXPECT_EQ(counters.staged_bytes, writer_stages ? 5 * 4 * elements : 0U);
                     EXPECT_EQ(counters.transfers, 5U);
                     EXPECT_EQ(counters.bytes_moved, 5 * 4 * elements);
                     const std::size_t chunks = (4 * elements + kChunk - 1) / kChunk;
                     const bool is_staged = writer_stages || owner_stages;
                     EXPECT_GE(counters.work_requests, 5 * (is_staged ? chunks : 1));
                     EXPECT_TRUE(is_staged || counters.work_requests == 5);
                     meet(world, "after " + spec.name);
                   }
             },
             1, {{Setting::gpu_staging, "4k"}});
  }
}

TEST_F(InChunks, TheSteadyStateMakesNothing) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's counts";
  run_on(1, in_small_chunks(), [&](World& world) {
    constexpr std::size_t kCount = in_chunks(3);
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount));
    Slot slot = world.expose(spec_of(kCount, Memory::gpu(1)));
    RemoteSlot remote = world.attach(0, spec_of(kCount, Memory::gpu(1)));
    expect_steady(*control(), 3 + 1, [&] {  // the owner waits when all is there
      remote.put(tensor).wait().or_throw();
      (void)slot.wait().value();
    });
    const EdgeReport edge = edge_of(world, "in", Role::receives);
    EXPECT_EQ(edge.counters.staged_bytes, edge.counters.transfers * kCount * sizeof(float));
    EXPECT_EQ(edge.counters.device_copies, edge.counters.transfers);
  });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(InChunks, TensorsEndWithTheirPath) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    control()->restart(without_exports(
        {.pace = stand_in::Pace::lazy, .seed = seed, .idle = std::chrono::milliseconds(0)}));
    SimJob job(
        2, {.seed = seed},
        simulated_settings().with(Setting::arena_chunk, "2m").with(Setting::gpu_staging, "4k"));
    constexpr std::size_t kCount = in_chunks(5);
    const SimOutcome outcome = job.run([&](World& world) {
      if (world.rank() == 1) {
        const Tensor from = tensor_of(world, Memory::gpu(1), counted(kCount));
        RemoteSlot remote = world.attach(0, spec_of(kCount, {}));
        remote.put(from, Until::delivered).wait().or_throw();
        Request request = remote.put(from, Until::delivered);
        for (std::uint64_t look = 0; look < seed; ++look) (void)request.test();
        job.disconnect(0, 1);
        const Status status = request.wait();
        EXPECT_TRUE(!status.ok() && status.code() != Code::timeout) << "seed " << seed;
        return;
      }
      Slot slot = world.expose(spec_of(kCount, Memory::gpu(0)));
      EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kCount));
      EXPECT_FALSE(slot.wait().ok());
    });
    EXPECT_EQ(outcome.failures, std::vector<std::string>{}) << outcome.text;
  }
}
#endif

}  // namespace
}  // namespace weft::tests
