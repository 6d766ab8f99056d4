// The bounds of a rendezvous: parked tensors are limited, waits end and name the late rank, and
// each key and step is used once.
#include <atomic>
#include <thread>

#include "tests/support/stats.hpp"
#include "tests/threads/rendezvous/exchanges.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr auto kShort = milliseconds(30);

void two_ranks(const RendezvousSpec& spec,
               const std::function<void(World&, Rendezvous&, Meeting&)>& body) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world, spec);
    body(world, rendezvous, meeting);
    EXPECT_TRUE(world.leave().ok());
  });
}

void expect_error(const Status& status, Code code, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code);
  for (const auto& part : parts) EXPECT_TRUE(contains(status.text(), part)) << status.text();
}

TEST(RendezvousBounds, ASenderWaitsForItsReceiverAboveTheCount) {
  RendezvousSpec spec;
  spec.max_parked = 3;
  two_ranks(spec, [](World& world, Rendezvous& rendezvous, Meeting& meeting) {
    if (world.rank() == 0) {
      const Tensor tensor = world.allocate(DType::f32, {10});
      for (std::uint64_t step = 0; step < 3; ++step)
        rendezvous.send(1, "w", step, tensor).or_throw();
      expect_error(rendezvous.send(1, "w", 3, tensor, Deadline::after(kShort)), Code::timeout,
                   {"rank 1", "key \"w\", step 0", "3 tensors of 120 bytes"});
      expect_error(rendezvous.serve(Deadline::after(kShort)), Code::timeout,
                   {"rank 1", "key \"w\", step 0"});
      meeting.wait();
      // Step 3 was not offered, so it can still be.
      rendezvous.send(1, "w", 3, tensor).or_throw();
      rendezvous.serve().or_throw();
    } else {
      meeting.wait();
      std::this_thread::sleep_for(kShort);
      for (std::uint64_t step = 0; step < 4; ++step)
        EXPECT_TRUE(rendezvous.recv(0, "w", step).ok());
    }
  });
}

TEST(RendezvousBounds, ASenderWaitsForItsReceiverAboveTheBytes) {
  RendezvousSpec spec;
  spec.max_parked_bytes = 100;
  two_ranks(spec, [](World& world, Rendezvous& rendezvous, Meeting& meeting) {
    if (world.rank() == 0) {
      rendezvous.send(1, "large", 0, world.allocate(DType::u8, {500})).or_throw();
      expect_error(
          rendezvous.send(1, "small", 0, world.allocate(DType::u8, {1}), Deadline::after(kShort)),
          Code::timeout, {"rank 1", "key \"large\", step 0"});
      rendezvous.send(0, "another receiver", 0, world.allocate(DType::u8, {1})).or_throw();
      rendezvous.recv(0, "another receiver", 0).value();
      meeting.wait();
      rendezvous.send(1, "small", 0, world.allocate(DType::u8, {1})).or_throw();
      rendezvous.serve().or_throw();
    } else {
      meeting.wait();
      EXPECT_TRUE(rendezvous.recv(0, "large", 0).ok());
      EXPECT_TRUE(rendezvous.recv(0, "small", 0).ok());
    }
  });
}

TEST(RendezvousBounds, RequestsThatWaitAtTheSenderAreBounded) {
  RendezvousSpec spec;
  spec.max_parked_requests = 2;
  std::atomic<bool> refused{false};
  spec.observer = [&](const RendezvousEvent& event) {
    if (event.message == RendezvousMessage::error_status && !event.sent) refused = true;
  };
  two_ranks(spec, [&](World& world, Rendezvous& rendezvous, Meeting&) {
    if (world.rank() == 0) {
      // This rank's calls read requests only, until the receiver's request has been refused.
      EXPECT_TRUE(soon([&] { return rendezvous.lent(1, "a", 0) || refused.load(); }));
      rendezvous.send(1, "a", 0, filled(world, DType::f32, {4}, 0, 0)).or_throw();
      rendezvous.send(1, "b", 0, filled(world, DType::f32, {4}, 0, 1)).or_throw();
      rendezvous.serve().or_throw();
    } else {
      const std::vector<KeyStep> wanted = {{"a", 0}, {"b", 0}, {"c", 0}};
      auto got = rendezvous.recv(0, wanted);
      EXPECT_TRUE(holds(got[0]->tensor, pattern_of(0, 0, 0)));
      EXPECT_TRUE(holds(got[1]->tensor, pattern_of(0, 0, 1)));
      expect_error(got[2].status(), Code::exhausted,
                   {"key \"c\", step 0", "2 requests wait", "max_parked_requests"});
      EXPECT_EQ(got[2].status().detail().operation, "recv") << got[2].status().text();
    }
  });
}

TEST(RendezvousBounds, OneCallMayWantMoreThanThereAreWords) {
  RendezvousSpec spec;
  spec.batch_requests = false;
  constexpr std::uint64_t kMany = 300;
  two_ranks(spec, [&](World& world, Rendezvous& rendezvous, Meeting&) {
    if (world.rank() == 0) {
      for (std::uint64_t step = 0; step < kMany; ++step)
        rendezvous.send(1, "w", step, filled(world, DType::f32, {4}, 0, step)).or_throw();
      rendezvous.serve().or_throw();
    } else {
      std::vector<KeyStep> wanted;
      for (std::uint64_t step = 0; step < kMany; ++step) wanted.push_back({"w", step});
      auto got = rendezvous.recv(0, wanted);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(got[i].ok()) << got[i].status().text();
        EXPECT_TRUE(holds(got[i]->tensor, pattern_of(0, 0, i)));
      }
    }
  });
}

TEST(RendezvousBounds, ATimeoutNamesWhatIsMissingAndLeavesTheRequest) {
  two_ranks({}, [](World& world, Rendezvous& rendezvous, Meeting& meeting) {
    if (world.rank() == 1) {
      const auto late = rendezvous.recv(0, "w", 7, Deadline::after(kShort));
      expect_error(late.status(), Code::timeout, {"key \"w\", step 7", "rank 0", "recv"});
      EXPECT_EQ(late.status().detail().peer, 0);
      meeting.wait();
      EXPECT_TRUE(holds(rendezvous.recv(0, "w", 7).value().tensor, pattern_of(0, 0, 7)));
    } else {
      meeting.wait();
      rendezvous.send(1, "w", 7, filled(world, DType::f32, {9}, 0, 7)).or_throw();
      rendezvous.serve().or_throw();
    }
  });
}

TEST(RendezvousBounds, AKeyAndStepIsUsedOnce) {
  two_ranks({}, [](World& world, Rendezvous& rendezvous, Meeting& meeting) {
    const Tensor tensor = world.allocate(DType::f32, {3});
    if (world.rank() == 0) {
      rendezvous.send(1, "w", 0, tensor).or_throw();
      expect_error(rendezvous.send(1, "w", 0, tensor), Code::bad_argument,
                   {"key \"w\", step 0", "offered to rank 1"});
      rendezvous.serve().or_throw();
      meeting.wait();
      expect_error(rendezvous.send(1, "w", 0, tensor), Code::bad_argument, {"before"});
      rendezvous.send(1, "w", 1, tensor).or_throw();
      rendezvous.serve().or_throw();
    } else {
      rendezvous.recv(0, "w", 0).value();
      meeting.wait();
      expect_error(rendezvous.recv(0, "w", 0).status(), Code::bad_argument,
                   {"key \"w\", step 0", "received before"});
      const std::vector<KeyStep> twice = {{"w", 1}, {"w", 1}};
      auto got = rendezvous.recv(0, twice);
      EXPECT_TRUE(got[0].ok());
      expect_error(got[1].status(), Code::bad_argument, {"another call is receiving it"});
    }
  });
}

TEST(RendezvousBounds, WrongCallsSayWhatIsWrong) {
  two_ranks({}, [](World& world, Rendezvous& rendezvous, Meeting&) {
    const Tensor tensor = world.allocate(DType::f32, {3});
    expect_error(rendezvous.send(2, "w", 0, tensor), Code::bad_argument, {"no rank 2"});
    expect_error(rendezvous.send(1, "", 0, tensor), Code::bad_argument, {"0 bytes"});
    expect_error(rendezvous.recv(-1, "w", 0).status(), Code::bad_argument, {"no rank -1"});
    expect_error(rendezvous.recv(0, std::string(129, 'k'), 0).status(), Code::bad_argument,
                 {"129 bytes"});
    expect_error(rendezvous.send(1, "w", 0, Tensor::wrap(nullptr, DType::f32, {3})),
                 Code::bad_argument, {"no memory"});
    expect_error(rendezvous.send(1, "w", 0, Tensor()), Code::bad_argument, {"no memory"});
    expect_error(
        rendezvous.send(1, "w", 0, Tensor::wrap(tensor.data(), static_cast<DType>(99), {3})),
        Code::bad_argument, {"no memory", "99 does not exist"});
    expect_error(rendezvous.send_error(1, "w", 0, Code::ok, ""), Code::bad_argument, {"no error"});
    expect_error(rendezvous.send_error(1, "w", 0, static_cast<Code>(200), ""), Code::bad_argument,
                 {"200 is no code"});
    expect_error(rendezvous.cancel(1, "w", 0), Code::bad_argument, {"no request"});
    EXPECT_EQ(thrown_by([&] { (void)Rendezvous::open(world, {.name = ""}); }).code,
              Code::bad_argument);
    EXPECT_EQ(
        thrown_by([&] { (void)Rendezvous::open(world, {.name = "x", .message_bytes = 64}); }).code,
        Code::bad_argument);
    const ErrorDetail twice = thrown_by([&] { (void)Rendezvous::open(world); });
    EXPECT_EQ(twice.text(),
              "open: duplicate_name: rendezvous \"default\" is open on this rank already; destroy "
              "the former one first, or take another name");
  });
}

TEST(RendezvousBounds, OtherMessageBytesAreAMismatchOfThem) {
  std::atomic<int> told{0};
  run_on(2, [&](World& world) {
    const std::uint32_t bytes = world.rank() == 0 ? 256 : 512;
    const ErrorDetail detail = thrown_by(
        [&] { (void)Rendezvous::open(world, {.name = "unlike", .message_bytes = bytes}); });
    EXPECT_EQ(detail.operation, "open");
    EXPECT_FALSE(contains(detail.text(), "slot")) << detail.text();
    // The rank that hears of it first may have left before the other does.
    if (detail.code != Code::peer_left) {
      ++told;
      EXPECT_TRUE(tells(detail, Code::mismatch,
                        {"rank " + std::to_string(1 - world.rank()), "rendezvous \"unlike\"",
                         "message_bytes than " + std::to_string(bytes)}));
    }
    (void)world.leave();
  });
  EXPECT_GE(told, 1);
}

TEST(RendezvousBounds, OpeningAloneNamesTheRankThatDoesNot) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    if (world.rank() == 0) {
      const auto detail = thrown_by([&] {
        (void)Rendezvous::open(world, {.name = "alone"}, Deadline::after(milliseconds(500)));
      });
      EXPECT_TRUE(tells(detail, Code::timeout, {"rank 1", "not opened rendezvous \"alone\""}));
      EXPECT_FALSE(contains(detail.text(), "slot")) << detail.text();
      EXPECT_EQ(detail.peer, 1);
      // Without time even for its own part, it still names the other rank.
      for (int i = 0; i < 20; ++i)
        EXPECT_EQ(thrown_by([&] {
                    (void)Rendezvous::open(world, {.name = "alone"}, Deadline::at({}));
                  }).peer,
                  1);
    }
    meeting.wait();
    // The leftovers of the failed open do not stand in the way.
    auto rendezvous = Rendezvous::open(world, {.name = "alone"});
    if (world.rank() == 0) {
      rendezvous.send(1, "w", 0, world.allocate(DType::f32, {3})).or_throw();
      rendezvous.serve().or_throw();
    } else {
      EXPECT_TRUE(rendezvous.recv(0, "w", 0).ok());
    }
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousBounds, WhoClosesOrLeavesIsNamed) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    if (world.rank() == 1) {
      meeting.wait();
      rendezvous = Rendezvous();
      meeting.wait();
      meeting.wait();
    } else {
      rendezvous.send(1, "w", 0, world.allocate(DType::f32, {3})).or_throw();
      meeting.wait();
      expect_error(rendezvous.recv(1, "w", 0).status(), Code::closed,
                   {"rank 1", "key \"w\", step 0"});
      expect_error(rendezvous.serve(), Code::closed, {"rank 1"});
      expect_error(rendezvous.send(1, "w", 1, world.allocate(DType::f32, {3})), Code::closed,
                   {"rank 1"});
      meeting.wait();
      // The other exchanges go on.
      rendezvous.send(0, "w", 1, world.allocate(DType::f32, {3})).or_throw();
      EXPECT_TRUE(rendezvous.recv(0, "w", 1).ok());
      meeting.wait();
    }
    EXPECT_TRUE(world.leave().ok());
    if (world.rank() == 0)
      expect_error(rendezvous.recv(1, "w", 5).status(), Code::closed, {"this rank has left"});
  });
}

TEST(RendezvousBounds, WhoWaitsForARankThatLeavesIsTold) {
  run_on(2, [](World& world) {
    auto rendezvous = Rendezvous::open(world);
    if (world.rank() == 0) {
      expect_error(rendezvous.recv(1, "never", 0).status(), Code::peer_left,
                   {"rank 1", "key \"never\", step 0"});
    } else {
      std::this_thread::sleep_for(kShort);
    }
    (void)world.leave();
  });
}

TEST(RendezvousOffers, ThatNobodyFetchedAreToldWhereNoServeHasTold) {
  const TempFolder folder;
  for (const bool serves : {false, true}) {
    const auto log = folder.path() / (serves ? "serves" : "does not");
    Meeting meeting(2);
    run_ranks(
        2,
        [&](World& world) {
          Rendezvous exchange = Rendezvous::open(world);
          if (world.rank() == 1) {
            meeting.wait();
            return;
          }
          exchange.send(1, "w", 0, world.allocate(DType::f32, {100})).or_throw();
          exchange.send(1, "w", 1, world.allocate(DType::f32, {100})).or_throw();
          meeting.wait();
          const auto failures = [] { return stats_of_rank(0).failures(); };
          EXPECT_TRUE(soon([&] {
            (void)exchange.lent(1, "w", 0);
            return failures().size() == 1;
          }));
          EXPECT_EQ(failures()[0].operation, stats::Operation::rendezvous);
          EXPECT_EQ(failures()[0].peer, 1);
          if (serves) {
            // Rank 1 closes its end and then leaves; either may be known first.
            const Status served = exchange.serve();
            EXPECT_TRUE(served.code() == Code::closed || served.code() == Code::peer_left)
                << served.text();
            EXPECT_TRUE(failures().empty());
          }
          exchange = Rendezvous();
          EXPECT_TRUE(failures().empty());
          EXPECT_EQ(lines_with(log, "2 tensors offered to rank 1 were not fetched"),
                    serves ? 0 : 1);
        },
        settings().with(Setting::log_file, log.string()));
  }
}

}  // namespace
}  // namespace weft::tests
