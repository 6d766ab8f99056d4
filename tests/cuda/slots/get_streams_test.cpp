// Gets that a stream waits for: they begin when it has come to them, and it goes on when they have
// ended.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/cuda/slots/streams.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kGot = 3000;
constexpr std::size_t kGets = 6;

PublishedSpec got_spec(std::uint32_t depth = 2, Flow flow = Flow::credits) {
  return {.name = "news", .shape = {kGot}, .depth = depth, .flow = flow};
}

void publish_counted(World& world, PublishedSlot& slot, float first) {
  auto values = counted(kGot, first);
  world.copy(Tensor::wrap(values.data(), DType::f32, {kGot}), slot.next().value());
  slot.publish().or_throw();
}

class StreamGets : public OnStandInStreams {
 protected:
  /// Rank 0 publishes version after version; rank 1's stream gets each into one tensor and reads
  /// it. Returns what it has read.
  static std::vector<std::vector<float>> exchange(Over fabric, std::uint64_t seed = 1) {
    std::vector<std::vector<float>> seen;
    const SlotSpec turn{.name = "turn", .shape = {1}, .depth = kGets + 1};
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        PublishedSlot slot = world.expose_published(got_spec());
        Slot asked = world.expose(turn);
        for (std::size_t version = 0; version <= kGets; ++version) {
          asked.wait().value();
          publish_counted(world, slot, static_cast<float>(100 * version));
        }
        meet(world, "got");
      } else {
        const Tensor into = world.allocate(DType::f32, {kGot}, Memory::gpu(0));
        PublishedReader reader = world.attach_published(0, got_spec());
        RemoteSlot ask = world.attach(0, turn);
        const Tensor word = world.allocate(DType::f32, {1});
        OwnStream own(world, 0, kGot, kGets);
        // The first makes and pins all that is needed.
        EXPECT_OK_STATUS(reader.get(into, own.get()));
        ask.put(word).wait().or_throw();
        own.synchronize();
        for (std::size_t version = 0; version < kGets; ++version) {
          EXPECT_OK_STATUS(reader.get(into, own.get()));
          own.read(version, into);
          ask.put(word).wait().or_throw();
        }
        own.synchronize();
        EXPECT_EQ(*reader.outcome(), 0U);
        for (std::size_t version = 0; version < kGets; ++version)
          seen.push_back(own.elements(version));
        const EdgeReport edge = edge_of(world, "news", Role::views);
        EXPECT_EQ(edge.counters.transfers, kGets + 1);
        EXPECT_EQ(edge.counters.bytes_copied, 0U);
        const bool by_nic = moves_by_nic(fabric);
        const std::string way = by_nic ? "gpudirect" : fabric == Over::shm ? "mapped" : "staged";
        EXPECT_EQ(edge.way, way) << edge.reason;
        EXPECT_EQ(edge.counters.staged_bytes, way == "staged" ? 4 * kGot * (kGets + 1) : 0);
        EXPECT_EQ(edge.counters.device_copies, by_nic ? 0 : kGets + 1);
        meet(world, "got");
      }
      meet(world);
    };
    run_over(fabric, body, seed);
    return seen;
  }
  static std::vector<std::vector<float>> expected() {
    std::vector<std::vector<float>> all;
    for (std::size_t version = 1; version <= kGets; ++version)
      all.push_back(counted(kGot, static_cast<float>(100 * version)));
    return all;
  }
  struct Rank {
    World& world;
    PublishedSlot& slot;
    PublishedReader& reader;
    OwnStream& own;
    const Tensor& into;
  };
  /// A rank that publishes and gets.
  static void run(const std::function<void(Rank)>& body, std::uint32_t depth = 2,
                  Flow flow = Flow::credits) {
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      const Tensor into = world.allocate(DType::f32, {kGot}, Memory::gpu(0));
      PublishedSlot slot = world.expose_published(got_spec(depth, flow));
      PublishedReader reader = world.attach_published(0, "news");
      OwnStream own(world, 0, kGot, 8);
      body({world, slot, reader, own, into});
      own.synchronize();
    });
  }
};

TEST_F(StreamGets, BringTheirVersionsOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;  // an application's wait for its stream is real time
    SCOPED_TRACE(name_of(fabric));
    ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
    EXPECT_EQ(exchange(fabric), expected());
    EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// As many seeds as WEFT_TEST_STREAM_SEEDS says.
TEST_F(StreamGets, AreRightHoweverLateTheyAre) {
  const char* const wanted = std::getenv("WEFT_TEST_STREAM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)}),
        std::vector<std::string>{});
    ASSERT_EQ(exchange(seed % 2 == 0 ? Over::tcp : Over::shm, seed), expected());
    ASSERT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// Planted: the driver says that all has ended, and gets and streams go on too early.
TEST_F(StreamGets, AreCaughtIfTheyDoNotWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(2)}),
              std::vector<std::string>{});
    control()->claim_ends(1000);
    wrong += exchange(Over::shm, seed) == expected() ? 0 : 1;
    (void)control()->take_complaints();
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(StreamGets, BeginOnceTheStreamHasCome) {
  run([](Rank rank) {
    Gate gate;
    publish_counted(rank.world, rank.slot, 1);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    rank.own.synchronize();
    gate.hold(rank.own);
    rank.own.read(0, rank.into);  // the former version, though the next one is there long before
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    publish_counted(rank.world, rank.slot, 2);
    rank.own.read(1, rank.into);
    std::this_thread::sleep_for(milliseconds(30));
    gate.open();
    rank.own.synchronize();
    EXPECT_EQ(rank.own.elements(0), counted(kGot, 1));
    EXPECT_EQ(rank.own.elements(1), counted(kGot, 2));
  });
}

TEST_F(StreamGets, GoOnAtADeadlineAndTheNextCallSaysWhy) {
  run([](Rank rank) {
    publish_counted(rank.world, rank.slot, 1);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    const std::uint32_t* const first = rank.reader.outcome();
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get(), Deadline::after(milliseconds(50))));
    const std::uint32_t* const second = rank.reader.outcome();
    ASSERT_NE(first, second);
    rank.own.synchronize();
    EXPECT_EQ(*first, 0U);
    EXPECT_EQ(*second, static_cast<std::uint32_t>(Code::timeout));
    publish_counted(rank.world, rank.slot, 2);
    EXPECT_TRUE(tells(rank.reader.get(rank.into, rank.own.get()), Code::timeout,
                      {"get", "news", "published nothing newer"}));
    EXPECT_TRUE(rank.reader.ready());
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    rank.own.read(0, rank.into);
    rank.own.synchronize();
    EXPECT_EQ(*rank.reader.outcome(), 0U);
    EXPECT_EQ(rank.own.elements(0), counted(kGot, 2));
  });
}

TEST_F(StreamGets, ThatTheStreamDoesNotComeToAreToldToo) {
  run([](Rank rank) {
    Gate gate;
    publish_counted(rank.world, rank.slot, 1);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    const std::uint32_t* const first = rank.reader.outcome();
    rank.own.synchronize();
    gate.hold(rank.own);
    publish_counted(rank.world, rank.slot, 2);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get(), Deadline::after(milliseconds(20))));
    EXPECT_TRUE(tells(rank.reader.view().status(), Code::timeout, {"did not come to the get"}));
    EXPECT_EQ(*first, 0U) << "work ahead of the late get may read it still";
    EXPECT_EQ(elements_of(rank.world, rank.reader.view().value().tensor()), counted(kGot, 2))
        << "the thread may read meanwhile";
    rank.reader.see_again();
    EXPECT_TRUE(tells(rank.reader.get(rank.into, rank.own.get(), Deadline::after(milliseconds(20))),
                      Code::timeout, {"a stream has not come to an earlier get"}));
    gate.open();
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    rank.own.read(0, rank.into);
    rank.own.synchronize();
    EXPECT_EQ(rank.own.elements(0), counted(kGot, 2));
  });
}

TEST_F(StreamGets, AreWaitedForByTheThreadsCalls) {
  run([](Rank rank) {
    Gate gate;
    publish_counted(rank.world, rank.slot, 1);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    const Arrival held = [&] {
      rank.own.synchronize();
      rank.reader.see_again();
      return rank.reader.view().value();
    }();
    gate.hold(rank.own);
    publish_counted(rank.world, rank.slot, 2);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    const Tensor host = rank.world.allocate(DType::f32, {kGot});
    EXPECT_TRUE(tells(rank.reader.get(host, Deadline::after(milliseconds(20))), Code::timeout,
                      {"a stream still waits for an earlier get"}));
    EXPECT_TRUE(rank.reader.ready());
    gate.open();
    EXPECT_EQ(rank.reader.view(Deadline::after(milliseconds(50))).status().code(), Code::timeout)
        << "the stream has got it";
    EXPECT_EQ(elements_of(rank.world, held.tensor()), counted(kGot, 1));
    rank.own.read(0, rank.into);
    rank.own.synchronize();
    EXPECT_EQ(rank.own.elements(0), counted(kGot, 2));
  });
}

/// Pinning may wait for all streams, this one too, which waits for the publication.
TEST_F(StreamGets, AreWaitedForByTheFirstPublicationBehindAStream) {
  run([](Rank rank) {
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    (void)rank.slot.next().value();
    EXPECT_TRUE(tells(rank.slot.publish(rank.own.get(), Deadline::after(milliseconds(20))),
                      Code::timeout, {"publish", "memory is to be pinned first"}));
    EXPECT_OK_STATUS(rank.slot.publish());
    rank.own.synchronize();
    std::ranges::copy(counted(kGot, 1), rank.slot.next().value().as<float>().begin());
    EXPECT_OK_STATUS(rank.slot.publish(rank.own.get()));
    EXPECT_EQ(elements_of(rank.world, rank.reader.view().value().tensor()), counted(kGot, 1));
  });
}

TEST_F(StreamGets, GoOnWhenTheOwnerOrThisEndGoes) {
  enum class Goes { owner, slot, reader, world };
  for (const Goes goes : {Goes::owner, Goes::slot, Goes::reader, Goes::world})
    run_pair(
        [&](World& world) {
          PublishedSlot slot = world.expose_published(got_spec());
          publish_counted(world, slot, 1);
          meet(world, "got");
          if (goes == Goes::slot) slot = PublishedSlot();
          if (goes == Goes::owner) {
            world.leave().or_throw();
            return;
          }
          meet(world);
        },
        [&](World& world) {
          const Tensor into = world.allocate(DType::f32, {kGot}, Memory::gpu(0));
          PublishedReader reader = world.attach_published(0, got_spec());
          OwnStream own(world, 0, kGot, 1);
          EXPECT_OK_STATUS(reader.get(into, own.get()));
          own.synchronize();
          EXPECT_OK_STATUS(reader.get(into, own.get(), Deadline::after(std::chrono::seconds(60))));
          const std::uint32_t* const outcome = reader.outcome();
          meet(world, "got");
          const auto begun = std::chrono::steady_clock::now();
          if (goes == Goes::reader) reader = PublishedReader();
          if (goes == Goes::world) {
            meet(world);
            world.leave().or_throw();
          }
          own.synchronize();
          EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
          if (goes == Goes::owner || goes == Goes::slot) {
            EXPECT_EQ(*outcome, static_cast<std::uint32_t>(goes == Goes::slot ? Code::closed
                                                                              : Code::peer_left));
            EXPECT_EQ(reader.get(into, own.get()).code(),
                      goes == Goes::slot ? Code::closed : Code::peer_left);
          }
          if (goes == Goes::slot || goes == Goes::reader) meet(world);
        },
        settings().with(Setting::log, "off"));
}

TEST_F(StreamGets, LeaveTheVersionUnseenWhereTheGpuFails) {
  ASSERT_EQ(control()->restart({.delay = milliseconds(20)}), std::vector<std::string>{});
  run([&](Rank rank) {
    publish_counted(rank.world, rank.slot, 1);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    rank.own.synchronize();
    publish_counted(rank.world, rank.slot, 2);
    Gate gate;
    gate.hold(rank.own);
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
    gate.open();
    rank.own.synchronize();
    EXPECT_EQ(*rank.reader.outcome(), static_cast<std::uint32_t>(Code::system));
    EXPECT_TRUE(rank.reader.ready());
    EXPECT_TRUE(tells(rank.reader.get(rank.into, rank.own.get()), Code::system,
                      {"get", "GPU 0", "CUDA_ERROR_UNKNOWN", "news"}));
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
    rank.own.read(0, rank.into);
    rank.own.synchronize();
    EXPECT_EQ(rank.own.elements(0), counted(kGot, 2));
  });
}

TEST_F(StreamGets, RefuseBadInput) {
  run([&](Rank rank) {
    publish_counted(rank.world, rank.slot, 1);
    const Tensor wide = rank.world.allocate(DType::f32, {kGot + 1}, Memory::gpu(0));
    EXPECT_EQ(rank.reader.get(wide, rank.own.get()).code(), Code::mismatch);
    EXPECT_EQ(rank.reader.get(Tensor::wrap(nullptr, DType::f32, {kGot}), rank.own.get()).code(),
              Code::bad_argument);
    EXPECT_TRUE(
        tells(rank.reader.get(rank.into, Stream::cuda(&rank)), Code::bad_argument, {"no stream"}));
    const Tensor there = rank.world.allocate(DType::f32, {kGot}, Memory::gpu(1));
    EXPECT_TRUE(tells(rank.reader.get(there, rank.own.get()), Code::bad_argument,
                      {"the stream is of GPU 0"}));
    EXPECT_EQ(rank.reader.outcome(), nullptr);
    EXPECT_TRUE(rank.reader.ready());
    EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
  });
}

TEST_F(StreamGets, IntoHostMemoryKeepTheThreadWaiting) {
  run([](Rank rank) {
    Gate gate;
    publish_counted(rank.world, rank.slot, 1);
    const Tensor host = rank.world.allocate(DType::f32, {kGot});
    gate.hold(rank.own);
    EXPECT_EQ(rank.reader.get(host, rank.own.get(), Deadline::after(milliseconds(20))).code(),
              Code::timeout);
    gate.open();
    EXPECT_OK_STATUS(rank.reader.get(host, rank.own.get()));
    EXPECT_EQ(elements_of(rank.world, host), counted(kGot, 1));
    EXPECT_EQ(rank.reader.outcome(), nullptr);
  });
}

TEST_F(StreamGets, FollowAGetOfTheThreadsThatIsBeingCopied) {
  ASSERT_EQ(control()->restart({.delay = milliseconds(20)}), std::vector<std::string>{});
  run([](Rank rank) {
    for (std::size_t i = 0; i < 4; ++i) {
      publish_counted(rank.world, rank.slot, static_cast<float>(10 * i));
      EXPECT_EQ(rank.reader.get(rank.into, Deadline::after(std::chrono::nanoseconds(1))).code(),
                Code::timeout);
      if (i % 2 == 1) publish_counted(rank.world, rank.slot, static_cast<float>(10 * i + 1));
      EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
      rank.own.read(i, rank.into);
      rank.own.synchronize();
      EXPECT_EQ(rank.own.elements(i), counted(kGot, static_cast<float>(10 * i + i % 2)));
    }
  });
}

TEST_F(StreamGets, MakeNothingInTheSteadyState) {
  run([&](Rank rank) {
    expect_steady(*control(), 1, [&] {
      (void)rank.slot.next().value();
      rank.slot.publish().or_throw();
      EXPECT_OK_STATUS(rank.reader.get(rank.into, rank.own.get()));
      // The thread waits for the stream's get here: one that is late would take the next version.
      Status none;
      do none = rank.reader.view(Deadline::after(milliseconds(5))).status();
      while (none.text().find("a stream still waits") != std::string::npos);
      EXPECT_EQ(none.code(), Code::timeout);
    });
    rank.own.synchronize();
    EXPECT_EQ(*rank.reader.outcome(), 0U);
  });
}

}  // namespace
}  // namespace weft::tests
