// Silence shows the death of a host; a rank's own lateness does not count as silence.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/unit/connector/job.hpp"
#include "tests/unit/connector/raw_peer.hpp"

namespace weft::p2p::tests {
namespace {

using std::chrono::steady_clock;

Config quick() { return settings().with(Setting::dead_after, "1s"); }

/// Rank 0, and a rank 1 whose messages the test sends.
class Heartbeat : public testing::Test {
 public:
  void SetUp() override {
    Identity::Secret secret;
    secret.fill(static_cast<std::byte>(Rank::kSecret));
    rank.start({rank.address, rank.address});
    ASSERT_TRUE(peer.authenticate(Identity(1, 2, secret), 0));
    ASSERT_TRUE(rank.wait_met(1));
  }

  Rank rank{0, 2, quick()};
  RawPeer peer{rank.address.connector};
};

TEST_F(Heartbeat, EndsARankThatIsSilentForTooLong) {
  const auto start = steady_clock::now();
  const auto end = rank.wait_end(1).value();
  const auto took = steady_clock::now() - start;
  EXPECT_FALSE(end.orderly);
  EXPECT_EQ(end.why, "silent for 1 s");
  EXPECT_TRUE(rank.gave_up) << "a verdict, not an end that was seen";
  EXPECT_GE(took, 950ms);
  EXPECT_LE(took, 5s);
}

TEST_F(Heartbeat, HearsASignOfLife) {
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(250ms);
    ASSERT_TRUE(peer.send_record(std::uint16_t{0}));
  }
  EXPECT_FALSE(rank.has_ended(1));
  EXPECT_TRUE(rank.wait_end(1));
}

TEST_F(Heartbeat, LetsARankLiveThatIsHeardByOtherConnections) {
  rank.hears_otherwise = true;
  std::this_thread::sleep_for(1500ms);
  EXPECT_FALSE(rank.has_ended(1));
  rank.hears_otherwise = false;
  EXPECT_TRUE(rank.wait_end(1));
}

TEST_F(Heartbeat, GivesASignOfLifeOnlyWhenNothingElseWasSaid) {
  const auto count_signs = [&](const auto& meanwhile) {
    int signs = 0;
    const auto until = steady_clock::now() + 500ms;
    while (steady_clock::now() < until) {
      meanwhile();
      while (peer.readable(0ms)) {
        const auto length = peer.receive<std::uint16_t>().value();
        if (length == 0) ++signs;
        if (length > Connector::kMaxMessage) continue;
        for (int i = 0; i < length; ++i) (void)peer.receive<std::byte>();
      }
      std::this_thread::sleep_for(2ms);
    }
    return signs;
  };
  const int idle = count_signs([] {});
  const int busy = count_signs([&] { rank.send(1, "talk"); });
  EXPECT_GE(idle, 3);  // of 10
  EXPECT_LE(idle, 12);
  EXPECT_LE(busy, 2);
}

TEST_F(Heartbeat, DoesNotBlameThePeerForItsOwnPause) {
  // As if this process had been stopped: the peer is silent all that time.
  std::this_thread::sleep_for(600ms);
  rank.thread().post([] { std::this_thread::sleep_for(1500ms); });
  rank.thread().run([] {});
  const auto woke = steady_clock::now();
  ASSERT_TRUE(rank.wait_end(1));
  EXPECT_GE(steady_clock::now() - woke, 850ms);
}

TEST_F(Heartbeat, ReadsWhatWaitedBeforeItBelievesTheSilence) {
  rank.thread().post([] { std::this_thread::sleep_for(1500ms); });
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(150ms);
    peer.send_record(std::uint16_t{0});
  }
  EXPECT_FALSE(rank.has_ended(1));
}

TEST_F(Heartbeat, EndsARankThatClosesToASilentOne) {
  rank.close(1);
  EXPECT_TRUE(rank.wait_end(1).value().orderly);
}

TEST_F(Heartbeat, EndsARankThatTalksRubbish) {
  peer.send_record(std::uint16_t{Connector::kMaxMessage + 1});
  const auto end = rank.wait_end(1).value();
  EXPECT_FALSE(end.orderly);
  EXPECT_EQ(end.why, "what it sent is malformed");
  EXPECT_TRUE(peer.is_closed());
}

TEST_F(Heartbeat, PutsPiecesOfAMessageTogether) {
  for (const char byte : std::string("\x05\0hello\0\0\x02\0ho", 13)) {
    ASSERT_TRUE(peer.send(std::string_view(&byte, 1)));
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(rank.wait_said(1, 2), (std::vector<std::string>{"hello", "ho"}));
}

TEST(Heartbeats, KeepQuietRanksTogether) {
  Job job(3, settings().with(Setting::dead_after, "2s"));
  job.connect();
  std::this_thread::sleep_for(3s);
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) EXPECT_FALSE(job[a].has_ended(b));
}

}  // namespace
}  // namespace weft::p2p::tests
