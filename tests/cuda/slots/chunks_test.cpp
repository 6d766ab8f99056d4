// Tensors that are staged go in chunks: the way of one overlaps the copies of others, at both ends.
#include "tests/cuda/slots/chunks.hpp"

namespace weft::tests {
namespace {

TEST_F(ChunkTimes, AreAsManyAsChunksAndTwoFromGpuToGpu) {
  EXPECT_LE(times(Memory::gpu(0), Memory::gpu(1), in_small_chunks()), kChunks + 2);
  EXPECT_EQ(times(Memory::gpu(0), Memory::gpu(1), settings()), 3 * kChunks) << "in one chunk";
}

TEST_F(ChunkTimes, AreAsManyAsChunksAndOneWhereOneEndStages) {
  EXPECT_LE(times(Memory::gpu(0), {}, in_small_chunks()), kChunks + 1);
  EXPECT_LE(times({}, Memory::gpu(1), in_small_chunks()), kChunks + 1);
}

std::string name_of(Memory from, Memory to) { return " from " + from.text() + " to " + to.text(); }

/// Over each fabric, with copies that take some time.
class InChunks : public OnGpus {
 protected:
  stand_in::Options options() const override {
    return without_exports({.delay = std::chrono::milliseconds(1)});
  }
  using Settings = std::vector<std::pair<Setting, std::string>>;

  /// Both ends, in all sizes about that of a chunk.
  void expect_whole_tensors(Over fabric, const Settings& also = {}) {
    if (control() != nullptr) control()->restart(without_exports(options_for(fabric)));
    SCOPED_TRACE(name_of(fabric));
    Settings all{{Setting::gpu_staging, "4k"}};
    all.insert(all.end(), also.begin(), also.end());
    const auto body = [](World& world) {
      for (const std::size_t elements :
           {in_chunks(1), in_chunks(1) + 1, in_chunks(2), in_chunks(3) - 1, in_chunks(5) + 17})
        for (const bool writer_stages : {true, false})
          for (const bool owner_stages : {true, false})
            expect_all(world, elements, writer_stages ? Memory::gpu(1) : Memory::host(),
                       owner_stages ? Memory::gpu(0) : Memory::host());
    };
    run_over(fabric, body, 1, all);
  }

  /// Some tensors, of which two are on their way at a time.
  static void expect_all(World& world, std::size_t elements, Memory from, Memory to,
                         std::size_t chunk = kChunk) {
    constexpr std::size_t kTensors = 5;
    SlotSpec spec = spec_in_chunks(elements, to);
    // A writer may be ahead of the owner's end: names are for one round.
    spec.name = "in " + std::to_string(elements) + name_of(from, to);
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      for (std::size_t i = 0; i < kTensors; ++i)
        EXPECT_EQ(seen_by_application(world, slot.wait().value().tensor()),
                  counted(elements, static_cast<float>(i)))
            << elements;
      return meet(world, "after " + spec.name);
    }
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < kTensors; ++i)
      tensors.push_back(tensor_of(world, from, counted(elements, static_cast<float>(i))));
    RemoteSlot remote = world.attach(0, spec);
    std::vector<Request> requests;
    for (const Tensor& tensor : tensors) requests.push_back(remote.put(tensor));
    for (Request& request : requests) request.wait().or_throw();
    const auto counters = edge_of(world, spec.name, Role::puts).counters;
    EXPECT_EQ(counters.staged_bytes, from.is_gpu() ? kTensors * 4 * elements : 0U);
    EXPECT_EQ(counters.transfers, kTensors);
    EXPECT_EQ(counters.bytes_moved, kTensors * 4 * elements);
    const std::size_t chunks = (4 * elements + chunk - 1) / chunk;
    const bool is_staged = from.is_gpu() || to.is_gpu();
    EXPECT_GE(counters.work_requests, kTensors * (is_staged ? chunks : 1));
    EXPECT_TRUE(is_staged || counters.work_requests == kTensors);
    meet(world, "after " + spec.name);
  }
};

TEST_F(InChunks, TensorsComeWholeOverEveryFabric) {
  for (const Over fabric : all_fabrics())
    if (!moves_by_nic(fabric)) expect_whole_tensors(fabric);
}

#if defined(WEFT_TEST_FAKE_NIC)
TEST_F(InChunks, TensorsComeWholeByNics) {
  expect_whole_tensors(Over::nics_in_order);
  expect_whole_tensors(Over::nics, {{Setting::qps_per_peer, "2"}});
  expect_whole_tensors(Over::nics_in_order,
                       {{Setting::qps_per_peer, "2"}, {Setting::notify, "tail"}});
}

/// Chunks that several queue pairs share.
TEST_F(InChunks, TensorsComeWholeInPiecesOfChunks) {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  const auto body = [](World& world) {
    expect_all(world, 3 * kMegabyte / sizeof(float) + 5, Memory::gpu(1), Memory::gpu(0), kMegabyte);
  };
  run_over(Over::nics, body, 1, {{Setting::gpu_staging, "1m"}, {Setting::qps_per_peer, "2"}});
}
#endif

TEST_F(InChunks, TensorsComeWholeWithTheCheckOfFlow) {
  for (const Over fabric : some_fabrics()) expect_whole_tensors(fabric, {{Setting::check, "flow"}});
}

/// Before a rank that has used a GPU puts its first tensor from there into a slot in host memory,
/// and after it.
TEST_F(InChunks, TensorsOfTheHostThatArePackedComeWhole) {
  constexpr std::int64_t kCount = in_chunks(3) + 5;
  const auto body = [](World& world) {
    const SlotSpec spec = spec_in_chunks(kCount, Memory::host());
    const auto values = [](float first) { return counted(kCount, first); };
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      for (float first = 0; first < 6; ++first)
        EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), values(first));
      return meet(world, "end");
    }
    const Tensor on_gpu = tensor_of(world, Memory::gpu(0), values(4));
    RemoteSlot remote = world.attach(0, spec);
    const auto put_packed = [&](float first) {
      const Tensor wide = world.allocate(DType::f32, {2 * kCount});
      const auto all = wide.as<float>();
      for (std::int64_t i = 0; i < kCount; ++i)
        all[2 * static_cast<std::size_t>(i)] = first + static_cast<float>(i);
      const std::array<std::int64_t, 1> strides{2};
      remote.put(Tensor::wrap(wide.data(), DType::f32, {kCount}, strides)).wait().or_throw();
      auto own = values(first + 1);
      remote.put(Tensor::wrap(own.data(), DType::f32, {kCount})).wait().or_throw();
    };
    put_packed(0);
    put_packed(2);
    remote.put(on_gpu).wait().or_throw();
    auto own = values(5);
    remote.put(Tensor::wrap(own.data(), DType::f32, {kCount})).wait().or_throw();
    meet(world, "end");
  };
  for (const Over fabric : all_fabrics()) {
    SCOPED_TRACE(name_of(fabric));
    run_over(fabric, body, 1, {{Setting::gpu_staging, "4k"}});
  }
}

/// Where a fabric copies within the call, a thread is not held up by more than some chunks.
TEST_F(InChunks, TheCopiesOfACallAreBounded) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  toy::ToyNetwork network;
  std::atomic<std::thread::id> own{};
  std::atomic<std::size_t> copied{0};
  network.on_put = [&](p2p::PutWork& work) {
    if (std::this_thread::get_id() == own.load()) copied += work.bytes;
  };
  const auto attach_and_put = [&](World& world) {
    const SlotSpec spec = spec_in_chunks(kBytes / sizeof(float), Memory::gpu(0), 1);
    const Tensor tensor = world.allocate(DType::f32, spec.shape);
    Slot slot = world.expose(spec);
    RemoteSlot remote = world.attach(0, spec);
    own = std::this_thread::get_id();
    Request request = remote.put(tensor);
    EXPECT_GT(copied.load(), 0U);
    EXPECT_LE(copied.load(), kBytes / 2);
    EXPECT_EQ(slot.wait().value().tensor().bytes(), kBytes);
    request.wait().or_throw();
    EXPECT_EQ(edge_of(world, "in", Role::puts).counters.work_requests, 32U);
  };
  run_ranks(1, attach_and_put, settings().with(Setting::gpu_staging, "1m"), {}, network.fabrics());
}

TEST_F(InChunks, TheSteadyStateMakesNothing) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's counts";
  run_on(1, in_small_chunks(), [&](World& world) {
    constexpr std::size_t kCount = in_chunks(3);
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount));
    Slot slot = world.expose(spec_in_chunks(kCount, Memory::gpu(1)));
    RemoteSlot remote = world.attach(0, spec_in_chunks(kCount, Memory::gpu(1)));
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
        RemoteSlot remote = world.attach(0, spec_in_chunks(kCount, {}));
        remote.put(from, Until::delivered).wait().or_throw();
        Request request = remote.put(from, Until::delivered);
        for (std::uint64_t look = 0; look < seed; ++look) (void)request.test();
        job.disconnect(0, 1);
        const Status status = request.wait();
        EXPECT_TRUE(!status.ok() && status.code() != Code::timeout) << "seed " << seed;
        return;
      }
      Slot slot = world.expose(spec_in_chunks(kCount, Memory::gpu(0)));
      EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kCount));
      EXPECT_FALSE(slot.wait().ok());
    });
    EXPECT_EQ(outcome.failures, std::vector<std::string>{}) << outcome.text;
  }
}
#endif

}  // namespace
}  // namespace weft::tests
