// The exact messages of every kind of exchange, as both ends see them.
#include <thread>

#include "tests/threads/rendezvous/exchanges.hpp"

namespace weft::tests {
namespace {

using Lines = std::vector<std::string>;

/// Rank 0 sends and rank 1 receives, one after the other, so that there is one order only.
class Messages {
 public:
  using Act = std::function<void(World&, Rendezvous&)>;
  struct Step {
    Act sender;
    Act receiver;
    Lines expected;
    bool receiver_first = false;  ///< the request is there before the tensor
  };

  void run(const std::vector<Step>& steps, RendezvousSpec spec = {}) {
    run_on(2, [&](World& world) {
      auto own = spec;
      own.observer = record_.of(world.rank(), 1 - world.rank());
      auto rendezvous = Rendezvous::open(world, own);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const Step& step = steps[i];
        const bool second = world.rank() == (step.receiver_first ? 0 : 1);
        if (second && step.receiver_first) {
          EXPECT_TRUE(soon([&] { return record_.size() != 0; }));
        } else if (second) {
          together_.wait();
        }
        if (world.rank() == 0)
          step.sender(world, rendezvous);
        else
          step.receiver(world, rendezvous);
        if (!second && !step.receiver_first) together_.wait();
        if (world.rank() == 0) rendezvous.serve().or_throw();
        together_.wait();
        if (world.rank() == 0) {
          EXPECT_EQ(record_.take(), step.expected) << "step " << i;
        }
        together_.wait();
      }
      EXPECT_TRUE(world.leave().ok());
    });
  }

  static Act send(std::uint64_t step, std::int64_t rows) {
    return [=](World& world, Rendezvous& rendezvous) {
      rendezvous.send(1, "w", step, filled(world, DType::f32, {rows, 4}, 0, step)).or_throw();
    };
  }
  static Act recv(std::uint64_t step) {
    return [=](World&, Rendezvous& rendezvous) {
      const auto got = rendezvous.recv(0, "w", step);
      ASSERT_TRUE(got.ok()) << got.status().text();
      EXPECT_TRUE(got->is_dead || holds(got->tensor, pattern_of(0, 0, step)));
    };
  }

 private:
  Record record_;
  Meeting together_{2};
};

Lines missed(std::uint64_t step, const std::string& how) {
  const std::string what = " w#" + std::to_string(step);
  return {"1 sends tensor_request" + what + how,
          "0 gets tensor_request" + what + how,
          "0 sends meta_data_response" + what,
          "1 gets meta_data_response" + what,
          "1 sends tensor_re_request" + what,
          "0 gets tensor_re_request" + what,
          "0 sends tensor" + what,
          "1 gets tensor" + what};
}

Lines met(std::uint64_t step, const std::string& how = " with place") {
  const std::string what = " w#" + std::to_string(step);
  return {"1 sends tensor_request" + what + how, "0 gets tensor_request" + what + how,
          "0 sends tensor" + what, "1 gets tensor" + what};
}

TEST(RendezvousMessages, FirstThenCachedThenAChangedShape) {
  using M = Messages;
  Messages().run({{M::send(0, 2), M::recv(0), missed(0, " by name")},
                  {M::send(1, 2), M::recv(1), met(1)},
                  {M::send(2, 2), M::recv(2), met(2)},
                  {M::send(3, 5), M::recv(3), missed(3, " with place")},
                  {M::send(4, 5), M::recv(4), met(4)},
                  {M::send(5, 5), M::recv(5), met(5), true},
                  {M::send(6, 1), M::recv(6), missed(6, " with place"), true}});
}

TEST(RendezvousMessages, WithoutACacheEveryShapeIsNew) {
  using M = Messages;
  RendezvousSpec spec;
  spec.cache_metadata = false;
  Messages().run({{M::send(0, 2), M::recv(0), missed(0, " by name")},
                  {M::send(1, 2), M::recv(1), missed(1, "")}},
                 spec);
}

TEST(RendezvousMessages, WithoutIndexesEveryRequestCarriesTheName) {
  using M = Messages;
  RendezvousSpec spec;
  spec.index_keys = false;
  Messages().run({{M::send(0, 2), M::recv(0), missed(0, " by name")},
                  {M::send(1, 2), M::recv(1), met(1, " by name with place")}},
                 spec);
}

TEST(RendezvousMessages, ADeadTensorNeedsNoPlace) {
  using M = Messages;
  const auto send_dead = [](std::uint64_t step) {
    return [=](World&, Rendezvous& rendezvous) { rendezvous.send_dead(1, "w", step).or_throw(); };
  };
  const Lines first = {"1 sends tensor_request w#0 by name", "0 gets tensor_request w#0 by name",
                       "0 sends meta_data_response w#0", "1 gets meta_data_response w#0",
                       "1 gets tensor w#0"};
  Messages().run(
      {{send_dead(0), M::recv(0), first},
       {send_dead(1), M::recv(1), met(1)},
       {M::send(2, 2), M::recv(2), missed(2, " with place")},
       {send_dead(3),
        M::recv(3),
        {"1 sends tensor_request w#3 with place", "0 gets tensor_request w#3 with place",
         "0 sends meta_data_response w#3", "1 gets meta_data_response w#3", "1 gets tensor w#3"}}});
}

TEST(RendezvousMessages, AnErrorIsAnAnswer) {
  const auto send_error = [](World&, Rendezvous& rendezvous) {
    rendezvous.send_error(1, "w", 3, Code::exhausted, "the table is full").or_throw();
  };
  const auto recv_error = [](World&, Rendezvous& rendezvous) {
    const auto got = rendezvous.recv(0, "w", 3);
    EXPECT_EQ(got.code(), Code::exhausted);
    EXPECT_TRUE(contains(got.status().text(), "the table is full")) << got.status().text();
    EXPECT_TRUE(contains(got.status().text(), "key \"w\", step 3")) << got.status().text();
    EXPECT_EQ(got.status().detail().peer, 0);
  };
  Messages().run({{send_error,
                   recv_error,
                   {"1 sends tensor_request w#3 by name", "0 gets tensor_request w#3 by name",
                    "0 sends error_status w#3", "1 gets error_status w#3"}}});
}

TEST(RendezvousMessages, ASentTimeoutDiffersFromTheReceiversOwn) {
  run_on(2, [](World& world) {
    auto rendezvous = Rendezvous::open(world);
    if (world.rank() == 0) {
      rendezvous.send_error(1, "w", 0, Code::timeout, "the disk was late").or_throw();
      rendezvous.serve().or_throw();
      return;
    }
    const Status own =
        rendezvous.recv(0, "w", 1, Deadline::after(std::chrono::milliseconds(20))).status();
    EXPECT_EQ(own.code(), Code::timeout);
    EXPECT_EQ(own.detail().operation, "recv");
    const Status sent = rendezvous.recv(0, "w", 0).status();
    EXPECT_EQ(sent.code(), Code::timeout);
    EXPECT_EQ(sent.detail().operation, "send_error");
    EXPECT_TRUE(contains(sent.text(), "rank 0 sent this error")) << sent.text();
  });
}

TEST(RendezvousMessages, ManyRequestsTravelInOne) {
  run_on(2, [](World& world) {
    for (const bool batches : {true, false}) {
      RendezvousSpec spec{.name = batches ? "batches" : "plain"};
      spec.batch_requests = batches;
      auto rendezvous = Rendezvous::open(world, spec);
      const std::vector<KeyStep> wanted = {{"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"e", 0}};
      const Tensor tensor = world.allocate(DType::f32, {4});
      if (world.rank() == 0) {
        for (const auto& at : wanted) rendezvous.send(1, at.key, at.step, tensor).or_throw();
        rendezvous.serve().or_throw();
        for (const auto& edge : world.report().edges)
          if (edge.slot == "rdv." + spec.name + ".1") {
            EXPECT_EQ(edge.counters.transfers, (batches ? 1U : 5U) + 5U + 1U);
          }
      } else {
        for (auto& got : rendezvous.recv(0, wanted)) EXPECT_TRUE(got.ok());
      }
    }
    EXPECT_TRUE(world.leave().ok());
  });
}

/// The request was sent when the sender is lost: no further message follows, and the receiver's
/// wait ends.
TEST(RendezvousMessages, ThereIsNoneAfterThePeersDeath) {
  Record record;
  Meeting together(2);
  run_on(2, [&](World& world) {
    RendezvousSpec spec;
    spec.observer = record.of(world.rank(), 1 - world.rank());
    auto rendezvous = Rendezvous::open(world, spec);
    together.wait();
    if (world.rank() == 1) {
      std::thread detector([&] {
        EXPECT_TRUE(soon([&] { return record.size() != 0; }));
        world.declare_dead(0, "the test gave it up");
      });
      const auto got = rendezvous.recv(0, "w", 0);
      detector.join();
      EXPECT_EQ(got.code(), Code::peer_failed) << got.status().text();
      EXPECT_EQ(got.status().detail().peer, 0);
      EXPECT_TRUE(contains(got.status().text(), "the test gave it up")) << got.status().text();
      EXPECT_EQ(rendezvous.recv(0, "w", 1).code(), Code::peer_failed);
      EXPECT_EQ(record.take(), (Lines{"1 sends tensor_request w#0 by name"}));
    }
    together.wait();
  });
}

}  // namespace
}  // namespace weft::tests
