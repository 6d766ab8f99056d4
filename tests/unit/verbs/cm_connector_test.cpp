// Connection setup of queue pairs by the connection manager.
#include "p2p/transport/verbs/cm/cm_connector.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/soon.hpp"
#include "tests/unit/verbs/device_rig.hpp"

namespace weft::p2p::verbs {
namespace {

using namespace std::chrono_literals;
using fake::FakeNetwork;
using fake::NicSpec;

template <typename Condition>
bool soon(const Condition& holds) {
  return weft::tests::soon(holds, 10s);
}

VerbsOptions options() {
  VerbsOptions options;
  options.timeout = 19;
  options.connection_manager = true;
  return options;
}

/// A rank with two queue pairs for its one peer.
class Rank {
 public:
  static constexpr std::size_t kPairs = 2;

  Rank(FakeNetwork& network, int number, const NicSpec& nic = {},
       std::chrono::nanoseconds patience = 20s)
      : rig_(network.device(number, nic), options()),
        device_(rig_.device()),
        queue_(*rig_.verbs, rig_.verbs->create_cq(device_.context(), 16, nullptr)) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue_.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {4, 4, 1, 1, 0};
    for (std::size_t i = 0; i < kPairs; ++i) {
      pairs_.emplace_back(*rig_.verbs, rig_.verbs->create_qp(device_.domain(), &wanted));
      device_.to_init(pairs_.back().get());
    }
    rig_.verbs->changes.clear();
    std::string why;
    cm_connector_.emplace(rig_.verbs->connection_manager(why), device_, progress_, log_,
                          CmConnector::Options{.rank = number, .patience = patience},
                          CmConnector::Events{.up = [this](int) { ++ups_; },
                                              .failed =
                                                  [this](int rank, const Status& failure) {
                                                    cm_connector_->drop(rank);
                                                    why_ = failure.text();
                                                  }});
    address = device_.address();
    cm_connector_->describe(address);
    cm_connector_->open();
    progress_.start();
  }
  ~Rank() {
    progress_.stop();
    cm_connector_.reset();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  VerbsAddress address;

  /// On the progress thread.
  template <typename Ask>
  auto asked(const Ask& ask) {
    std::optional<decltype(ask())> answer;
    progress_.run([&] { answer = ask(); });
    return *answer;
  }

  Token expect(int rank) {
    std::vector<ibv_qp*> pairs;
    for (const QueuePairHandle& pair : pairs_) pairs.push_back(pair.get());
    return asked([&] { return cm_connector_->expect(rank, pairs); });
  }
  void connect(int rank, const VerbsAddress& peer, const Token& token) {
    progress_.run([&] { cm_connector_->connect(rank, peer, token); });
  }
  void drop(int rank) {
    progress_.run([&] { cm_connector_->drop(rank); });
  }
  int ups() {
    return asked([&] { return ups_; });
  }
  std::string why() {
    return asked([&] { return why_; });
  }
  std::uint64_t rejected_connections() {
    return asked([&] { return cm_connector_->rejected_connections(); });
  }
  /// The state changes of its queue pairs after INIT.
  std::vector<RecordingVerbs::Change> changes() {
    return asked([&] { return rig_.verbs->changes; });
  }

 private:
  DeviceRig rig_;
  Device& device_;
  CompletionQueue queue_;
  std::vector<QueuePairHandle> pairs_;
  Log log_{Config().with(Setting::log, "off"), "here", 0};
  ProgressThread progress_;
  std::optional<CmConnector> cm_connector_;
  // The progress thread's.
  int ups_ = 0;
  std::string why_;
};

Token other(Token token) {
  token[0] ^= std::byte{1};
  return token;
}

/// One with the address 192.0.2.N.
NicSpec iwarp(std::uint8_t n) {
  NicSpec nic{.iwarp = true};
  nic.ports[0].gids = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, n}}};
  return nic;
}

class CmConnections : public ::testing::Test {
 protected:
  void make(std::chrono::nanoseconds patience = 20s) { make({}, {}, patience); }
  void make(const NicSpec& low, const NicSpec& high, std::chrono::nanoseconds patience = 20s) {
    low_.emplace(network_, 0, low, patience);
    high_.emplace(network_, 1, high, patience);
    to_low_ = low_->expect(1);
    to_high_ = high_->expect(0);
  }
  void TearDown() override {
    high_.reset();
    low_.reset();
    EXPECT_EQ(network_.left_behind(), "");
    EXPECT_EQ(network_.complaints(), "");
  }
  bool both_are_up() {
    return soon([&] { return low_->ups() == 1 && high_->ups() == 1; });
  }

  FakeNetwork network_;
  std::optional<Rank> low_;
  std::optional<Rank> high_;
  Token to_low_{};   ///< what calls to the lower rank must bear
  Token to_high_{};  ///< what its answers must bear
};

TEST_F(CmConnections, ReadyAllQueuePairsWithTheSettingsOfTheirRank) {
  make();
  low_->connect(1, high_->address, to_high_);
  high_->connect(0, low_->address, to_low_);
  ASSERT_TRUE(both_are_up()) << low_->why() << high_->why();
  for (Rank* rank : {&*low_, &*high_}) {
    const auto changes = rank->changes();
    ASSERT_EQ(changes.size(), 3 * Rank::kPairs);
    for (const auto& change : changes) {
      if (change.attributes.qp_state == IBV_QPS_RTR) {
        EXPECT_EQ(change.attributes.max_dest_rd_atomic, 16);
      }
      if (change.attributes.qp_state != IBV_QPS_RTS) continue;
      EXPECT_EQ(change.attributes.timeout, 19);
      EXPECT_EQ(change.attributes.rnr_retry, 6) << "7 would be for ever";
      EXPECT_EQ(change.attributes.max_rd_atomic, 16);
    }
  }
}

TEST_F(CmConnections, WaitWithTheAnswerUntilTheCallerIsKnown) {
  make();
  high_->connect(0, low_->address, to_low_);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(high_->ups(), 0);
  low_->connect(1, high_->address, to_high_);
  EXPECT_TRUE(both_are_up()) << low_->why() << high_->why();
}

TEST_F(CmConnections, LeaveTheStatesToADeviceOfIwarp) {
  make(iwarp(10), iwarp(11));
  low_->connect(1, high_->address, to_high_);
  high_->connect(0, low_->address, to_low_);
  EXPECT_TRUE(both_are_up()) << low_->why() << high_->why();
  EXPECT_TRUE(low_->changes().empty());
  EXPECT_TRUE(high_->changes().empty());
}

TEST_F(CmConnections, TurnAwayACallThatBearsAnotherToken) {
  make();
  low_->connect(1, high_->address, to_high_);
  high_->connect(0, low_->address, other(to_low_));
  ASSERT_TRUE(soon([&] { return !high_->why().empty(); }));
  EXPECT_NE(high_->why().find("queue pair 0 to rank 0: RDMA_CM_EVENT_REJECTED"), std::string::npos)
      << high_->why();
  EXPECT_NE(high_->why().find("the peer does not know the caller"), std::string::npos)
      << high_->why();
  EXPECT_GE(low_->rejected_connections(), 1U);
  EXPECT_TRUE(low_->changes().empty()) << "nothing is done for an unauthenticated client";
  // A peer that knows the token is still accepted.
  to_high_ = high_->expect(0);
  low_->drop(1);
  to_low_ = low_->expect(1);
  low_->connect(1, high_->address, to_high_);
  high_->connect(0, low_->address, to_low_);
  EXPECT_TRUE(both_are_up()) << low_->why() << high_->why();
}

TEST_F(CmConnections, BelieveNoAnswerThatBearsAnotherToken) {
  make();
  low_->connect(1, high_->address, other(to_high_));
  high_->connect(0, low_->address, to_low_);
  ASSERT_TRUE(soon([&] { return !high_->why().empty(); }));
  EXPECT_NE(high_->why().find("another process has answered"), std::string::npos) << high_->why();
  EXPECT_EQ(high_->ups(), 0);
}

TEST_F(CmConnections, NameThePeerThatDoesNotCallInTime) {
  make(100ms);
  low_->connect(1, high_->address, to_high_);
  ASSERT_TRUE(soon([&] { return !low_->why().empty(); }));
  EXPECT_NE(low_->why().find("queue pair 0 to rank 1: not connected within 100 ms: waiting for the "
                             "peer's call"),
            std::string::npos)
      << low_->why();
}

TEST_F(CmConnections, NameTheAddressThatNobodyHas) {
  make();
  VerbsAddress nowhere = low_->address;
  nowhere.cm_ip[15] = std::byte{250};
  high_->connect(0, nowhere, to_low_);
  ASSERT_TRUE(soon([&] { return !high_->why().empty(); }));
  EXPECT_NE(high_->why().find("RDMA_CM_EVENT_ADDR_ERROR while looking for"), std::string::npos)
      << high_->why();
}

TEST_F(CmConnections, NameTheCallThatNobodyTakes) {
  make();
  VerbsAddress elsewhere = low_->address;
  elsewhere.cm_port = 60000;
  high_->connect(0, elsewhere, to_low_);
  ASSERT_TRUE(soon([&] { return !high_->why().empty(); }));
  EXPECT_NE(high_->why().find("no process listens there any more"), std::string::npos)
      << high_->why();
}

TEST_F(CmConnections, EndWhenTheConnectionEndsAndNobodySaysWhy) {
  make();
  low_->connect(1, high_->address, to_high_);
  high_->connect(0, low_->address, to_low_);
  ASSERT_TRUE(both_are_up()) << low_->why() << high_->why();
  high_->drop(0);
  EXPECT_EQ(low_->why(), "") << "the connector comes first";
  ASSERT_TRUE(soon([&] { return !low_->why().empty(); }));
  EXPECT_NE(low_->why().find("the connection has ended, but not its rank"), std::string::npos)
      << low_->why();
}

TEST_F(CmConnections, MayBeCutShortAtAnyMoment) {
  for (int i = 0; i < 100; ++i) {
    make();
    low_->connect(1, high_->address, to_high_);
    high_->connect(0, low_->address, to_low_);
    (i % 2 == 0 ? low_ : high_).reset();
    (i % 2 == 0 ? high_ : low_).reset();
    ASSERT_EQ(network_.left_behind(), "") << i;
  }
}

TEST_F(CmConnections, NoticeACallerThatGivesUp) {
  make();
  // The peer never learns of a connection attempt that is dropped before it was accepted.
  for (auto patience = 20ms; low_->why().empty() && patience < 10s; patience *= 2) {
    high_->connect(0, low_->address, to_low_);
    std::this_thread::sleep_for(patience);
    high_->drop(0);
    std::this_thread::sleep_for(patience);
  }
  EXPECT_NE(low_->why().find("called by the peer, but not told of its queue pairs yet"),
            std::string::npos)
      << low_->why();
}

}  // namespace
}  // namespace weft::p2p::verbs
