// A tensor that is offered under a key and step arrives whole, whichever side comes first.
#include <array>
#include <cstring>
#include <thread>

#include "tests/support/edges.hpp"
#include "tests/threads/rendezvous/exchanges.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

class Text final : public Codec {
 public:
  explicit Text(std::string text = {}) : text(std::move(text)) {}
  std::uint16_t id() const override { return 7; }
  std::size_t size() const override { return text.size(); }
  void encode(std::span<std::byte> to) const override {
    std::memcpy(to.data(), text.data(), text.size());
  }
  void decode(std::span<const std::byte> from) override {
    if (from.size() > 100) throw std::length_error("too long a text");
    text.assign(reinterpret_cast<const char*>(from.data()), from.size());
  }
  std::string text;
};

TEST(RendezvousExchange, ArrivesWholeInEitherOrder) {
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    for (const bool sender_first : {true, false})
      for (std::uint64_t step = 0; step < 20; ++step) {
        const std::string key = sender_first ? "early" : "late";
        const Shape shape{static_cast<std::int64_t>(1 + step % 3), 1000};
        if ((world.rank() == 0) == sender_first)
          std::this_thread::sleep_for(milliseconds(step % 4 == 0 ? 2 : 0));
        if (world.rank() == 0) {
          rendezvous.send(1, key, step, filled(world, DType::f32, shape, 0, step)).or_throw();
        } else {
          const auto got = rendezvous.recv(0, key, step).value();
          EXPECT_EQ(got.tensor.shape(), shape);
          EXPECT_EQ(got.tensor.dtype(), DType::f32);
          EXPECT_FALSE(got.is_dead);
          EXPECT_TRUE(holds(got.tensor, pattern_of(0, 0, step))) << key << " " << step;
        }
      }
    rendezvous.serve().or_throw();
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousExchange, SaysWhetherATensorIsThereAndAsksForIt) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    for (std::uint64_t step = 0; step < 4; ++step) {
      if (world.rank() == 1) {
        EXPECT_FALSE(rendezvous.ready(0, "w", step));
        EXPECT_FALSE(rendezvous.ready(0, "w", step)) << "it asks once";
      }
      meeting.wait();
      if (world.rank() == 0) {
        rendezvous.send(1, "w", step, filled(world, DType::f32, {100}, 0, step)).or_throw();
        EXPECT_TRUE(soon([&] { return !rendezvous.lent(1, "w", step); }));
      } else {
        EXPECT_TRUE(soon([&] { return rendezvous.ready(0, "w", step); }));
        EXPECT_TRUE(rendezvous.ready(0, "w", step)) << "until it is taken";
        const auto got = rendezvous.recv(0, "w", step, Deadline::after({}));
        ASSERT_TRUE(got.ok()) << got.status().text();
        EXPECT_TRUE(holds(got->tensor, pattern_of(0, 0, step)));
        EXPECT_TRUE(rendezvous.ready(0, "w", step)) << "recv() would fail at once";
        EXPECT_EQ(rendezvous.recv(0, "w", step).code(), Code::bad_argument);
      }
      meeting.wait();
    }
    EXPECT_TRUE(rendezvous.ready(7, "w", 9)) << "there is no such rank";
    if (world.rank() == 0) return meeting.wait();
    EXPECT_FALSE(rendezvous.ready(0, "w", 9));
    meeting.wait();  // rank 0 leaves from here on
    EXPECT_TRUE(soon([&] { return rendezvous.ready(0, "w", 9); })) << "rank 0 has left";
    EXPECT_FALSE(rendezvous.recv(0, "w", 9).ok());
  });
}

/// More requests than the words for their completions: the others wait for room.
TEST(RendezvousExchange, SaysWhetherManyTensorsAreThere) {
  constexpr std::uint64_t kSteps = 300;
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    for (std::uint64_t step = 0; world.rank() == 1 && step < kSteps; ++step)
      EXPECT_FALSE(rendezvous.ready(0, "w", step));
    meeting.wait();
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      if (world.rank() == 0) {
        rendezvous.send(1, "w", step, filled(world, DType::f32, {10}, 0, step)).or_throw();
      } else {
        EXPECT_TRUE(soon([&] { return rendezvous.ready(0, "w", step); })) << step;
        EXPECT_TRUE(holds(rendezvous.recv(0, "w", step).value().tensor, pattern_of(0, 0, step)));
      }
    }
    rendezvous.serve().or_throw();
    meeting.wait();
  });
}

TEST(RendezvousExchange, MeetsARankThatComputes) {
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    if (world.rank() == 0) {
      for (std::uint64_t step = 0; step < 5; ++step)
        rendezvous.send(1, "w", step, filled(world, DType::f32, {100}, 0, step)).or_throw();
      // This rank waits outside weft: its progress thread answers, including new shapes.
      EXPECT_TRUE(soon([&] { return !rendezvous.lent(1, "none", 0); }));
      std::this_thread::sleep_for(milliseconds(200));
      rendezvous.serve(Deadline::after(milliseconds(1))).or_throw();
    } else {
      for (std::uint64_t step = 0; step < 5; ++step)
        EXPECT_TRUE(holds(rendezvous.recv(0, "w", step).value().tensor, pattern_of(0, 0, step)));
    }
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousExchange, CarriesDeadAndEmptyTensorsWithoutPayload) {
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    for (std::uint64_t step = 0; step < 6; ++step) {
      if (world.rank() == 0) {
        if (step % 2 == 0)
          rendezvous.send_dead(1, "branch", step).or_throw();
        else
          rendezvous.send(1, "branch", step, world.allocate(DType::i64, {0, 4})).or_throw();
      } else {
        const auto got = rendezvous.recv(0, "branch", step).value();
        EXPECT_EQ(got.is_dead, step % 2 == 0);
        if (step % 2 == 1) {
          EXPECT_EQ(got.tensor.text(), "i64[0, 4]");
        }
      }
    }
    rendezvous.serve().or_throw();
    const auto cost =
        exchange_cost(world, 1 - world.rank(), world.rank() == 0 ? Role::puts : Role::receives);
    EXPECT_EQ(cost.transfers, 6U);
    EXPECT_EQ(cost.bytes_moved, 0U);
    EXPECT_EQ(cost.work_requests, 0U);
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousExchange, CarriesEncodedValues) {
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    if (world.rank() == 0) {
      rendezvous.send_encoded(1, "text", 1, Text("first")).or_throw();
      rendezvous.send_encoded(1, "text", 2, Text("a longer one")).or_throw();
      rendezvous.send_encoded(1, "text", 3, Text(std::string(101, 'x'))).or_throw();
      rendezvous.send_encoded(1, "text", 4, Text("")).or_throw();
      rendezvous.send(1, "text", 5, filled(world, DType::u8, {8}, 0, 0)).or_throw();
      EXPECT_EQ(exchange_cost(world, 1, Role::puts).bytes_copied, 5U + 12U + 101U);
    } else {
      Text text;
      rendezvous.recv(0, "text", 1).value().decode(text).or_throw();
      EXPECT_EQ(text.text, "first");
      rendezvous.recv(0, "text", 2).value().decode(text).or_throw();
      EXPECT_EQ(text.text, "a longer one");
      const Status thrown = rendezvous.recv(0, "text", 3).value().decode(text);
      EXPECT_TRUE(tells(thrown, Code::bad_argument, {"too long a text"}));
      rendezvous.recv(0, "text", 4).value().decode(text).or_throw();
      EXPECT_EQ(text.text, "");
      EXPECT_EQ(rendezvous.recv(0, "text", 5).value().decode(text).code(), Code::mismatch);
    }
    rendezvous.serve().or_throw();
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousExchange, StagesWhatLiesOutsideTheArena) {
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    if (world.rank() == 0) {
      std::array<float, 6> own{0, 1, 2, 3, 4, 5};
      rendezvous.send(1, "own", 0, Tensor::wrap(own.data(), DType::f32, {2, 3})).or_throw();
      EXPECT_FALSE(rendezvous.lent(1, "own", 0));
      rendezvous.send(1, "column", 0, Tensor::wrap(own.data(), DType::f32, {2, 3}).slice(1, 1, 1))
          .or_throw();
      own.fill(-1);
      // In the arena, strides don't require a copy.
      const Tensor matrix = world.allocate(DType::f32, {3, 2});
      for (std::size_t i = 0; i < 6; ++i) matrix.as<float>()[i] = static_cast<float>(10 * i);
      rendezvous.send(1, "strided", 0, matrix.slice(1, 0, 1)).or_throw();
      rendezvous.serve().or_throw();
      rendezvous.send(1, "strided", 1, matrix.slice(1, 1, 1)).or_throw();
      rendezvous.serve().or_throw();
      EXPECT_EQ(exchange_cost(world, 1, Role::puts).bytes_copied,
                24U + 8U + 12U);  // 12: announced a shape
    } else {
      EXPECT_EQ(rendezvous.recv(0, "own", 0).value().tensor.as<float>()[5], 5);
      const auto column = rendezvous.recv(0, "column", 0).value().tensor;
      EXPECT_EQ(column.as<float>()[0], 1);
      EXPECT_EQ(column.as<float>()[1], 4);
      EXPECT_EQ(rendezvous.recv(0, "strided", 0).value().tensor.as<float>()[2], 40);
      EXPECT_EQ(rendezvous.recv(0, "strided", 1).value().tensor.as<float>()[2], 50);
    }
    rendezvous.serve().or_throw();
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousExchange, WorksWithOneself) {
  run_on(1, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    for (std::uint64_t step = 0; step < 10; ++step) {
      rendezvous.send(0, "own", step, filled(world, DType::f32, {64}, 0, step)).or_throw();
      EXPECT_TRUE(holds(rendezvous.recv(0, "own", step).value().tensor, pattern_of(0, 0, step)));
    }
    EXPECT_TRUE(rendezvous.serve().ok());
  });
}

TEST(RendezvousExchange, OfOneNameInSeveralGroupsDoNotMeet) {
  run_on(3, [&](World& world) {
    // All groups but the last hold ranks 0 and 1, and rank 0 opens the rendezvous in each.
    const std::vector<Group> groups{world.group(), world.group().subset(std::vector<int>{0, 1}),
                                    world.group().subset(std::vector<int>{1, 0}),
                                    world.group().subset(std::vector<int>{0, 2})};
    std::vector<Rendezvous> exchanges;
    std::vector<std::uint64_t> steps;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (!groups[i].contains(world.rank())) continue;
      exchanges.push_back(Rendezvous::open(world, groups[i]));
      steps.push_back(i);
    }
    // Tensors in chunks that the peer does not know yet: their requests go by the control
    // channel.
    const Shape shape{1 << 21};
    for (std::size_t i = 0; world.rank() == 0 && i < groups.size(); ++i)
      for (const int to : groups[i].members())
        if (to != 0)
          exchanges[i].send(to, "t", 0, filled(world, DType::f32, shape, 0, i)).or_throw();
    for (std::size_t i = 0; world.rank() != 0 && i < exchanges.size(); ++i)
      EXPECT_TRUE(holds(exchanges[i].recv(0, "t", 0).value().tensor, pattern_of(0, 0, steps[i])))
          << "in group " << steps[i];
    for (Rendezvous& exchange : exchanges) EXPECT_TRUE(exchange.serve().ok());
  });
}

TEST(RendezvousExchange, ReceivesManyAtOnce) {
  constexpr std::uint64_t kMany = 100;  // more than a message holds, and a group
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world, {.name = "batches"});
    for (std::uint64_t step = 0; step < 3; ++step) {
      std::vector<std::string> keys;
      for (std::uint64_t i = 0; i < kMany; ++i) keys.push_back("k" + std::to_string(i));
      if (world.rank() == 0) {
        for (std::uint64_t i = kMany; i-- > 0;)
          rendezvous
              .send(1, keys[i], step,
                    filled(world, DType::f32, {static_cast<std::int64_t>(i)}, 0, i + step))
              .or_throw();
        rendezvous.serve().or_throw();
      } else {
        std::vector<KeyStep> wanted;
        for (const auto& key : keys) wanted.push_back({key, step});
        auto got = rendezvous.recv(0, wanted);
        ASSERT_EQ(got.size(), kMany);
        for (std::uint64_t i = 0; i < kMany; ++i) {
          const auto one = std::move(got[i]).value();
          EXPECT_EQ(one.tensor.shape().elements(), static_cast<std::int64_t>(i));
          EXPECT_TRUE(holds(one.tensor, pattern_of(0, 0, i + step))) << i;
        }
      }
    }
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousExchange, GoesOnWhileTheArenaGrows) {
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    const Shape shape{1 << 20};  // of 4 MiB, as much as a chunk
    std::vector<Received> kept;
    for (std::uint64_t step = 0; step < 6; ++step) {
      if (world.rank() == 0) {
        rendezvous.send(1, "big", step, filled(world, DType::f32, shape, 0, step)).or_throw();
      } else {
        kept.push_back(rendezvous.recv(0, "big", step).value());
        for (std::uint64_t i = 0; i <= step; ++i)
          EXPECT_TRUE(holds(kept[i].tensor, pattern_of(0, 0, i))) << i << " at " << step;
      }
    }
    rendezvous.serve().or_throw();
    if (world.rank() == 1) {
      EXPECT_GE(arena(world, "data").chunks, 6U);
    }
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousExchange, CostsNothingButARequestAndAWrite) {
  constexpr std::uint64_t kSteps = 200;
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    const Tensor tensor = filled(world, DType::f32, {1000}, 0, 0);
    TransferCounters before;
    TransferCounters paths;
    ArenaReport data;
    const bool sends = world.rank() == 0;
    const Role role = sends ? Role::puts : Role::receives;
    const auto path_cost = [&] {
      TransferCounters sum;
      for (const auto& path : world.report().paths) sum += path.counters;
      return sum;
    };
    for (std::uint64_t step = 0; step < kSteps + 10; ++step) {
      if (step == 10) {
        before = exchange_cost(world, sends ? 1 : 0, role);
        paths = path_cost();
        data = arena(world, "data");
      }
      if (sends) {
        rendezvous.send(1, "w", step, tensor).or_throw();
        rendezvous.serve().or_throw();
      } else {
        rendezvous.recv(0, "w", step).value();
      }
    }
    const auto cost = exchange_cost(world, sends ? 1 : 0, role) - before;
    EXPECT_EQ(cost.transfers, kSteps);
    EXPECT_EQ(cost.bytes_moved, kSteps * 4000);
    EXPECT_EQ(cost.bytes_copied, 0U);
    EXPECT_EQ(cost.work_requests, sends ? kSteps : 0);
    EXPECT_EQ((path_cost() - paths).control_messages, 0U);
    EXPECT_EQ((path_cost() - paths).registrations, 0U);
    EXPECT_EQ(arena(world, "data").allocations - data.allocations, sends ? 0 : kSteps);
    // One request per step, and no answer but the tensor itself.
    const auto messages =
        edge_counters(world, sends ? "rdv.default.1" : "rdv.default.0", Role::receives);
    EXPECT_EQ(messages.transfers, sends ? 1 + (kSteps + 10) + 1 : 1 + 1);
    EXPECT_TRUE(world.leave().ok());
  });
}

/// The tensor that is asked for last comes first, and only its arrival lets the next one come.
TEST(RendezvousExchange, AsksForMoreThanTheMessagesThatItKeepsTrackOf) {
  constexpr int kKeys = 300;
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    const Tensor tensor = world.allocate(DType::f32, {4});
    const auto until = Deadline::after(std::chrono::seconds(20));
    for (int step = 0; step < 2; ++step) {
      if (world.rank() == 0) {
        for (int i = kKeys; i-- > 0;) {
          rendezvous.send(1, std::to_string(i), step, tensor).or_throw();
          rendezvous.recv(1, "got " + std::to_string(i), step, until).value();
        }
      } else {
        std::vector<bool> got(kKeys);
        for (int left = kKeys; left > 0 && !until.passed();)
          for (int i = 0; i < kKeys; ++i) {
            if (got[i] || !rendezvous.ready(0, std::to_string(i), step)) continue;
            rendezvous.recv(0, std::to_string(i), step, until).value();
            rendezvous.send(0, "got " + std::to_string(i), step, tensor).or_throw();
            got[i] = true;
            --left;
          }
        EXPECT_FALSE(until.passed());
      }
    }
    rendezvous.serve().or_throw();
  });
}

}  // namespace
}  // namespace weft::tests
