// The memory of an abandoned result is reused only after its sender can't write it any more.
#include <thread>

#include "tests/support/edges.hpp"
#include "tests/threads/rendezvous/exchanges.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr auto kShort = milliseconds(20);
const Shape kShape{16 << 10};  // of 64 KiB

/// Rank 1 has received step 0, so that it knows the shape, and has given up waiting for step 1.
struct Abandoned {
  World& world;
  Rendezvous rendezvous = Rendezvous::open(world);
  std::uint64_t used_before = 0;

  explicit Abandoned(World& in) : world(in) {
    if (world.rank() == 0) {
      rendezvous.send(1, "w", 0, filled(world, DType::f32, kShape, 0, 0)).or_throw();
      rendezvous.serve().or_throw();
    } else {
      rendezvous.recv(0, "w", 0).value();
      used_before = used();
      EXPECT_EQ(rendezvous.recv(0, "w", 1, Deadline::after(kShort)).code(), Code::timeout);
      EXPECT_EQ(used() - used_before, 64U << 10);
    }
  }
  std::uint64_t used() const { return arena(world, "data").used_bytes; }
  /// Allocates all memory that could be reused by mistake, to check later that it is unchanged.
  std::vector<Tensor> occupy() {
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 40; ++i)
      tensors.push_back(filled(world, DType::f32, kShape, 1, 1000 + i));
    return tensors;
  }
  static bool untouched(const std::vector<Tensor>& tensors) {
    for (std::uint64_t i = 0; i < tensors.size(); ++i)
      if (!holds(tensors[i], pattern_of(1, 0, 1000 + i))) return false;
    return true;
  }
};

void two_ranks(const std::function<void(Abandoned&, Meeting&)>& body) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    {
      Abandoned abandoned(world);
      meeting.wait();
      body(abandoned, meeting);
    }
    meeting.wait();
    EXPECT_TRUE(world.leave().ok());
  });
}

TEST(RendezvousLentMemory, ALateTensorLandsWhereItWasExpected) {
  two_ranks([](Abandoned& a, Meeting& meeting) {
    if (a.world.rank() == 0) {
      meeting.wait();
      a.rendezvous.send(1, "w", 1, filled(a.world, DType::f32, kShape, 0, 1)).or_throw();
      a.rendezvous.serve().or_throw();
      meeting.wait();
    } else {
      const auto others = a.occupy();
      meeting.wait();
      meeting.wait();
      EXPECT_TRUE(Abandoned::untouched(others));
      EXPECT_TRUE(holds(a.rendezvous.recv(0, "w", 1).value().tensor, pattern_of(0, 0, 1)));
    }
  });
}

TEST(RendezvousLentMemory, ACancelledRequestsResultStaysLentUntilTheSenderAgrees) {
  two_ranks([](Abandoned& a, Meeting& meeting) {
    if (a.world.rank() == 0) {
      meeting.wait();
      (void)a.rendezvous.lent(1, "w", 1);  // takes a turn: reads the request and its cancel
      meeting.wait();
      a.rendezvous.send(1, "w", 1, filled(a.world, DType::f32, kShape, 0, 1)).or_throw();
      a.rendezvous.serve().or_throw();
    } else {
      a.rendezvous.cancel(0, "w", 1).or_throw();
      EXPECT_EQ(a.rendezvous.recv(0, "w", 1).code(), Code::bad_argument);
      EXPECT_EQ(a.used() - a.used_before, 64U << 10);
      meeting.wait();
      meeting.wait();
      // No thread waits here: the progress thread reads the answer.
      EXPECT_TRUE(soon([&] { return a.used() == a.used_before; }));
      EXPECT_TRUE(holds(a.rendezvous.recv(0, "w", 1).value().tensor, pattern_of(0, 0, 1)));
    }
  });
}

TEST(RendezvousLentMemory, ACancelThatComesTooLateDropsTheTensor) {
  two_ranks([](Abandoned& a, Meeting& meeting) {
    if (a.world.rank() == 0) {
      a.rendezvous.send(1, "w", 1, filled(a.world, DType::f32, kShape, 0, 1)).or_throw();
      a.rendezvous.serve().or_throw();
      meeting.wait();
      meeting.wait();  // the other end needs this one
    } else {
      meeting.wait();
      a.rendezvous.cancel(0, "w", 1).or_throw();
      EXPECT_EQ(a.used(), a.used_before);
      EXPECT_EQ(a.rendezvous.recv(0, "w", 1).code(), Code::bad_argument);
      meeting.wait();
    }
  });
}

TEST(RendezvousLentMemory, ARendezvousThatIsGoneKeepsItsResultsUntilTheSenderAgrees) {
  two_ranks([](Abandoned& a, Meeting& meeting) {
    if (a.world.rank() == 0) {
      meeting.wait();
      meeting.wait();
      // This call reads the request and its cancel; no rank takes the tensor that it offers then.
      (void)a.rendezvous.send(1, "w", 1, filled(a.world, DType::f32, kShape, 0, 1));
      meeting.wait();
    } else {
      a.rendezvous = Rendezvous();
      meeting.wait();
      EXPECT_GE(a.used(), a.used_before + (64U << 10));
      const auto others = a.occupy();
      const auto used = a.used();
      meeting.wait();
      meeting.wait();
      EXPECT_TRUE(Abandoned::untouched(others));
      EXPECT_TRUE(soon([&] { return a.used() <= used - (64U << 10); }));
    }
  });
}

TEST(RendezvousLentMemory, AChangedShapeGivesTheFirstResultBack) {
  two_ranks([](Abandoned& a, Meeting& meeting) {
    if (a.world.rank() == 0) {
      meeting.wait();
      const Tensor tensor = filled(a.world, DType::f32, {10}, 0, 1);
      a.rendezvous.send(1, "w", 1, tensor).or_throw();
      EXPECT_FALSE(a.rendezvous.lent(1, "w", 1));  // cloned for the receiver that makes room
      fill(tensor, 0);
      a.rendezvous.serve().or_throw();
    } else {
      meeting.wait();
      const auto got = a.rendezvous.recv(0, "w", 1).value();
      EXPECT_TRUE(holds(got.tensor, pattern_of(0, 0, 1)));
      EXPECT_EQ(a.used() - a.used_before, 64U);
    }
  });
}

TEST(RendezvousLentMemory, ATensorIsLentUntilItIsFetched) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    auto rendezvous = Rendezvous::open(world);
    if (world.rank() == 0) {
      const Tensor tensor = filled(world, DType::f32, kShape, 0, 0);
      rendezvous.send(1, "w", 0, tensor).or_throw();
      EXPECT_TRUE(rendezvous.lent(1, "w", 0));
      meeting.wait();
      rendezvous.serve().or_throw();
      EXPECT_FALSE(rendezvous.lent(1, "w", 0));
    } else {
      meeting.wait();
      rendezvous.recv(0, "w", 0).value();
    }
    EXPECT_TRUE(world.leave().ok());
  });
}

}  // namespace
}  // namespace weft::tests
