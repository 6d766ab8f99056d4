// Versions published behind a stream: the thread goes on at once, and no reader sees a part.
#include <chrono>

#include "tests/cuda/slots/streams.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kNews = 3000;
constexpr std::size_t kEditions = 6;

PublishedSpec news(Memory memory, std::uint32_t depth = 3, Flow flow = Flow::credits) {
  return {.name = "news", .shape = {kNews}, .depth = depth, .flow = flow, .memory = memory};
}

class StreamPublishes : public OnStandInStreams {
 protected:
  /// Rank 0's stream fills version after version and publishes each; rank 1 views what it finds.
  /// Returns whether each was whole, and the last one was found.
  static bool views_whole_versions(Over fabric, Memory memory, std::uint64_t seed = 1,
                                   Flow flow = Flow::credits) {
    bool is_whole = true;
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        PublishedSlot slot = world.expose_published(news(memory, 3, flow));
        OwnStream own(world, 0, kNews, kEditions + 1);
        meet(world, "attached");
        for (std::size_t version = 0; version <= kEditions; ++version) {
          own.fill(version, slot.next().value(), static_cast<float>(1000 * version));
          EXPECT_OK_STATUS(slot.publish(own.get()));
        }
        meet(world, "seen");
        own.synchronize();
        const EdgeReport edge = edge_of(world, "news", Role::publishes);
        EXPECT_EQ(edge.counters.transfers, kEditions + 1);
        EXPECT_EQ(edge.counters.device_copies, memory.is_gpu() ? kEditions + 1 : 0);
      } else {
        PublishedReader reader = world.attach_published(0, news({}, 3, flow));
        meet(world, "attached");
        std::uint64_t seen = 0;
        while (seen <= kEditions) {
          const Arrival arrival = reader.view().value();
          EXPECT_GT(arrival.sequence(), seen);
          seen = arrival.sequence();
          const auto wanted = counted(kNews, static_cast<float>(1000 * (seen - 1)));
          is_whole = elements_of(world, arrival.tensor()) == wanted && is_whole;
        }
        meet(world, "seen");
      }
      meet(world);
    };
    run_over(fabric, body, seed);
    return is_whole;
  }
  /// A rank that publishes and reads.
  static void run(
      const std::function<void(World&, PublishedSlot&, PublishedReader&, OwnStream&)>& body,
      Memory memory = Memory::gpu(0), std::uint32_t depth = 2, Flow flow = Flow::credits) {
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      PublishedSlot slot = world.expose_published(news(memory, depth, flow));
      PublishedReader reader = world.attach_published(0, "news");
      OwnStream own(world, 0, kNews, 8);
      body(world, slot, reader, own);
      own.synchronize();
    });
  }
  /// By the stream, or for host memory, which is not pinned, by the thread.
  static void write(OwnStream& own, std::size_t copy, const Tensor& tensor, float first) {
    if (tensor.memory().is_gpu()) return own.fill(copy, tensor, first);
    std::ranges::copy(counted(kNews, first), tensor.as<float>().begin());
  }
  /// A version that is seen, and one whose stream the gate holds beyond its deadline.
  static void publish_late(PublishedSlot& slot, PublishedReader& reader, OwnStream& own,
                           Gate& gate) {
    (void)slot.next().value();
    EXPECT_OK_STATUS(slot.publish(own.get()));
    reader.view().value();
    gate.hold(own);
    (void)slot.next().value();
    EXPECT_OK_STATUS(slot.publish(own.get(), Deadline::after(milliseconds(20))));
  }
  static void expect_told(PublishedSlot& slot) {
    Status told;
    EXPECT_TRUE(soon([&] {
      told = slot.next(Deadline::after(milliseconds(1))).status();
      return told.text().find("did not come in time") != std::string::npos;
    })) << told.text();
  }
  static std::vector<float> viewed(World& world, PublishedReader& reader) {
    return elements_of(world, reader.view().value().tensor());
  }
};

TEST_F(StreamPublishes, ShowWholeVersionsOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;  // an application's wait for its stream is real time
    SCOPED_TRACE(name_of(fabric));
    for (const Memory memory : {Memory::gpu(0), Memory::host()}) {
      ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
      EXPECT_TRUE(views_whole_versions(fabric, memory));
      EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
    }
  }
}

TEST_F(StreamPublishes, ShowWholeVersionsWithoutCredits) {
  run(
      [](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
        for (std::size_t version = 0; version < 8; ++version) {
          own.fill(version, slot.next().value(), static_cast<float>(version));
          EXPECT_OK_STATUS(slot.publish(own.get()));
          EXPECT_EQ(viewed(world, reader), counted(kNews, static_cast<float>(version)));
        }
      },
      Memory::gpu(0), 2, Flow::unsafe_synchronous);
}

/// As many seeds as WEFT_TEST_STREAM_SEEDS says.
TEST_F(StreamPublishes, AreWholeHoweverLateTheyAre) {
  const char* const wanted = std::getenv("WEFT_TEST_STREAM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)}),
        std::vector<std::string>{});
    ASSERT_TRUE(views_whole_versions(Over::shm, Memory::gpu(0), seed));
    ASSERT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// Planted: neither the copies nor the stream wait for each other.
TEST_F(StreamPublishes, AreCaughtIfTheirCopiesDoNotWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(2)}),
              std::vector<std::string>{});
    control()->forget_waits(1000);
    wrong += views_whole_versions(Over::shm, Memory::gpu(0), seed) ? 0 : 1;
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(StreamPublishes, AreNotVisibleBeforeTheirStreamHasCome) {
  for (const Memory memory : {Memory::gpu(0), Memory::host()})
    run(
        [&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
          Gate gate;
          write(own, 0, slot.next().value(), 1);
          EXPECT_OK_STATUS(slot.publish(own.get()));
          EXPECT_EQ(viewed(world, reader), counted(kNews, 1));
          gate.hold(own);
          write(own, 1, slot.next().value(), 2);
          EXPECT_OK_STATUS(slot.publish(own.get()));
          EXPECT_EQ(reader.view(Deadline::after(milliseconds(50))).status().code(), Code::timeout);
          EXPECT_EQ(slot.next(Deadline::after(milliseconds(20))).status().code(), Code::timeout)
              << "the one buffer is the newest version's, the other waits for the stream";
          gate.open();
          EXPECT_EQ(viewed(world, reader), counted(kNews, 2));
          EXPECT_TRUE(slot.next().ok());
        },
        memory);
}

TEST_F(StreamPublishes, GoOnTogetherAsFarAsThereAreBuffers) {
  run(
      [](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
        Gate gate;
        own.fill(0, slot.next().value(), 1);
        EXPECT_OK_STATUS(slot.publish(own.get()));
        EXPECT_EQ(viewed(world, reader), counted(kNews, 1));
        gate.hold(own);
        for (std::size_t i = 1; i <= 3; ++i) {
          own.fill(i, slot.next().value(), static_cast<float>(10 * i));
          EXPECT_OK_STATUS(slot.publish(own.get()));
        }
        const Status full = slot.next(Deadline::after(milliseconds(20))).status();
        EXPECT_TRUE(tells(full, Code::timeout, {"next", "a stream has not come"}));
        gate.open();
        const Tensor next = slot.next().value();
        own.synchronize();
        // A thread's version comes behind all of those.
        own.fill(4, next, 50);
        own.synchronize();
        EXPECT_OK_STATUS(slot.publish());
        const Arrival arrival = reader.view().value();
        EXPECT_EQ(arrival.sequence(), 5U);
        EXPECT_EQ(elements_of(world, arrival.tensor()), counted(kNews, 50));
      },
      Memory::gpu(0), 4);
}

TEST_F(StreamPublishes, ThatAreLateAreNeverVisibleAndTheNextCallSaysWhy) {
  for (const Memory memory : {Memory::gpu(0), Memory::host()})
    run(
        [&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
          Gate gate;
          publish_late(slot, reader, own, gate);
          expect_told(slot);
          gate.open();
          own.synchronize();
          EXPECT_FALSE(reader.ready());
          write(own, 1, slot.next().value(), 7);
          EXPECT_OK_STATUS(slot.publish(own.get()));
          const Arrival arrival = reader.view().value();
          EXPECT_EQ(arrival.sequence(), 2U);
          EXPECT_EQ(elements_of(world, arrival.tensor()), counted(kNews, 7));
        },
        memory);
}

TEST_F(StreamPublishes, ThatFailAreToldByTheNextCall) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
    own.fill(0, slot.next().value(), 1);
    EXPECT_OK_STATUS(slot.publish(own.get()));
    EXPECT_EQ(viewed(world, reader), counted(kNews, 1));
    Gate gate;
    gate.hold(own);
    own.fill(1, slot.next().value(), 2);
    EXPECT_OK_STATUS(slot.publish(own.get()));
    control()->lose(0, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(tells(slot.next().status(), Code::system, {"publish", "GPU 0", "news"}));
    control()->lose(0, DriverStatus::success);
    gate.open();
    own.synchronize();
    EXPECT_FALSE(reader.ready());
    own.fill(2, slot.next().value(), 3);
    EXPECT_OK_STATUS(slot.publish(own.get()));
    EXPECT_EQ(viewed(world, reader), counted(kNews, 3));
  });
}

TEST_F(StreamPublishes, LeaveTheBufferWhereTheCallItselfFails) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
    EXPECT_EQ(slot.publish(own.get()).code(), Code::bad_argument) << "there is no buffer";
    own.fill(0, slot.next().value(), 1);
    EXPECT_TRUE(tells(slot.publish(Stream::cuda(this)), Code::bad_argument, {"no stream"}));
    {
      OwnStream other(world, 1, kNews, 1);
      EXPECT_TRUE(tells(slot.publish(other.get()), Code::bad_argument, {"the stream is of GPU 1"}));
    }
    // The second ones are behind the copy.
    for (const char* function : {"cuMemcpyAsync", "cuEventRecord", "cuStreamWaitEvent"})
      for (int nth = 1; nth <= (function == std::string("cuMemcpyAsync") ? 1 : 2); ++nth) {
        control()->refuse(function, nth, DriverStatus::unknown);
        EXPECT_TRUE(tells(slot.publish(own.get()), Code::system, {"publish", "GPU 0"}))
            << function << " " << nth;
      }
    EXPECT_FALSE(reader.ready());
    EXPECT_OK_STATUS(slot.publish(own.get()));
    EXPECT_EQ(viewed(world, reader), counted(kNews, 1));
  });
}

TEST_F(StreamPublishes, WhoseCallHasFailedEndBeforeTheThreadPublishes) {
  for (const char* function : {"cuEventRecord", "cuStreamWaitEvent"})
    run([&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
      Gate gate;
      own.fill(0, slot.next().value(), 1);
      EXPECT_OK_STATUS(slot.publish(own.get()));
      EXPECT_EQ(viewed(world, reader), counted(kNews, 1));
      own.fill(1, slot.next().value(), 2);
      own.synchronize();
      gate.hold(own);
      control()->refuse(function, 2, DriverStatus::unknown);
      EXPECT_EQ(slot.publish(own.get()).code(), Code::system);
      EXPECT_EQ(slot.publish(Deadline::after(milliseconds(20))).code(), Code::timeout)
          << "the former copy to the buffer is still to come";
      EXPECT_FALSE(reader.ready());
      gate.open();
      EXPECT_OK_STATUS(slot.publish());
      EXPECT_EQ(viewed(world, reader), counted(kNews, 2));
    });
}

TEST_F(StreamPublishes, ThatAreLateKeepNoOthersFromBeingPublished) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
        OwnStream other(world, 0, kNews, 1);
        Gate gate;
        publish_late(slot, reader, own, gate);
        expect_told(slot);
        write(other, 0, slot.next().value(), 7);
        EXPECT_OK_STATUS(slot.publish(other.get()));
        EXPECT_EQ(viewed(world, reader), counted(kNews, 7));
        write(other, 0, slot.next().value(), 8);
        EXPECT_OK_STATUS(slot.publish());
        const Arrival arrival = reader.view().value();
        EXPECT_EQ(arrival.sequence(), 3U);
        EXPECT_EQ(elements_of(world, arrival.tensor()), counted(kNews, 8));
        gate.open();
        own.synchronize();
        EXPECT_FALSE(reader.ready());
      },
      Memory::host(), 3);
}

TEST_F(StreamPublishes, ThatAreLateKeepTheBufferInASynchronousSlot) {
  run(
      [&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
        Gate gate;
        publish_late(slot, reader, own, gate);
        expect_told(slot);
        EXPECT_EQ(slot.next(Deadline::after(milliseconds(20))).status().code(), Code::timeout)
            << "the stream may still write there";
        gate.open();
        write(own, 0, slot.next().value(), 7);
        EXPECT_OK_STATUS(slot.publish());
        EXPECT_EQ(viewed(world, reader), counted(kNews, 7));
      },
      Memory::host(), 2, Flow::unsafe_synchronous);
}

TEST_F(StreamPublishes, FollowACopyOfTheThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer reports the race between the copy and the new contents";
#endif
  ASSERT_EQ(control()->restart({.delay = milliseconds(20)}), std::vector<std::string>{});
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
    for (std::size_t i = 0; i < 4; ++i) {
      own.fill(i, slot.next().value(), 1000);
      own.synchronize();
      EXPECT_EQ(slot.publish(Deadline::after(std::chrono::nanoseconds(1))).code(), Code::timeout);
      if (i % 2 == 0) (void)slot.next().value();
      own.fill(4 + i, slot.next().value(), static_cast<float>(i));
      EXPECT_OK_STATUS(slot.publish(own.get()));
      EXPECT_EQ(viewed(world, reader), counted(kNews, static_cast<float>(i)));
      own.synchronize();
    }
  });
}

TEST_F(StreamPublishes, WaitOnTheThreadWhereTheDriverPinsNothing) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
    control()->refuse("cuMemHostRegister_v2", 2, DriverStatus::not_supported);  // behind the words
    own.fill(0, slot.next().value(), 1);
    EXPECT_OK_STATUS(slot.publish(own.get()));
    EXPECT_EQ(viewed(world, reader), counted(kNews, 1));
    Gate gate;
    gate.hold(own);
    own.fill(1, slot.next().value(), 2);
    EXPECT_EQ(slot.publish(own.get(), Deadline::after(milliseconds(20))).code(), Code::timeout);
    EXPECT_FALSE(reader.ready());
    gate.open();
    EXPECT_OK_STATUS(slot.publish(own.get()));
    EXPECT_EQ(viewed(world, reader), counted(kNews, 2));
  });
}

TEST_F(StreamPublishes, OutliveTheirSlotAndTheirWorld) {
  for (const bool closes : {true, false})
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      PublishedSlot slot = world.expose_published(news(Memory::gpu(0)));
      PublishedReader reader = world.attach_published(0, "news");
      OwnStream own(world, 0, kNews, 2);
      Gate gate;
      (void)slot.next().value();
      EXPECT_OK_STATUS(slot.publish(own.get()));
      reader.view().value();
      gate.hold(own);
      (void)slot.next().value();
      EXPECT_OK_STATUS(slot.publish(own.get()));
      if (closes) {
        slot = PublishedSlot();
        EXPECT_EQ(reader.view().status().code(), Code::closed);
      } else {
        world.leave().or_throw();
      }
      gate.open();
      own.synchronize();
    });
  // A later copy looks after those that have outlived their worlds.
  run_on(1, [](World& world) {
    const Tensor host = world.allocate(DType::f32, {8});
    world.copy(host, host);
  });
}

TEST_F(StreamPublishes, MakeNothingInTheSteadyState) {
  run([&](World&, PublishedSlot& slot, PublishedReader& reader, OwnStream& own) {
    expect_steady(*control(), 1, [&] {
      (void)slot.next().value();
      EXPECT_OK_STATUS(slot.publish(own.get()));
      reader.view().value();
    });
  });
}

}  // namespace
}  // namespace weft::tests
