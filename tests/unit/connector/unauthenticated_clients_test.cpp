// Clients that are no rank of the job get nothing from it and do it no harm.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "tests/unit/connector/job.hpp"
#include "tests/unit/connector/raw_peer.hpp"

namespace weft::p2p::tests {
namespace {

constexpr int kSize = 3;

Identity::Secret secret(int of) {
  Identity::Secret secret;
  secret.fill(static_cast<std::byte>(of));
  return secret;
}

const Identity kRank1(1, kSize, secret(Rank::kSecret));

/// Rank 0 of three, to which unauthenticated clients connect while rank 2 must still get in.
class UnauthenticatedClients : public testing::Test {
 public:
  void SetUp() override { job.start(); }
  void TearDown() override {
    job[0].connect(2);
    job[2].connect(0);
    EXPECT_TRUE(job[0].wait_met(2));
    EXPECT_TRUE(job[2].wait_met(0));
    EXPECT_FALSE(job[0].has_ended(2));
  }

  const ConnectorAddress& acceptor() { return job[0].address.connector; }

  Job job{kSize};
};

TEST_F(UnauthenticatedClients, AreRejectedWithoutTheSecret) {
  const Identity foe(1, kSize, secret(Rank::kSecret + 1));
  RawPeer peer(acceptor());
  peer.handshake = foe.handshake(0);
  // The job's number is not secret.
  peer.handshake.job = kRank1.handshake(0).job;
  peer.send_record(peer.handshake);
  const auto answer = peer.receive<Answer>();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(foe.validate(peer.handshake, *answer).empty());
  peer.send_record(foe.prove(peer.handshake, *answer));
  EXPECT_TRUE(peer.is_closed());
  EXPECT_TRUE(job[0].wait_rejected(1));
}

TEST_F(UnauthenticatedClients, AreRejectedIfTheyClaimToBeNoOtherRank) {
  std::uint64_t count = 0;
  for (const auto& [from, to] : {std::pair{-1, 0}, {kSize, 0}, {0, 0}, {1, 2}}) {
    RawPeer peer(acceptor());
    Handshake handshake = kRank1.handshake(0);
    handshake.from = from;
    handshake.to = to;
    peer.send_record(handshake);
    EXPECT_FALSE(peer.receive<Answer>());
    EXPECT_TRUE(job[0].wait_rejected(++count)) << from << " to " << to;
  }
}

TEST_F(UnauthenticatedClients, LearnTheVersionIfTheirOwnDiffers) {
  RawPeer peer(acceptor());
  // The handshake of another version may have another size: its first bytes are enough.
  peer.send_record(
      Handshake::Protocol{.magic = Handshake::kMagic, .version = RankAddress::kVersion + 1});
  const auto protocol = peer.receive<Handshake::Protocol>();
  ASSERT_TRUE(protocol);
  EXPECT_EQ(protocol->magic, Handshake::kMagic);
  EXPECT_EQ(protocol->version, RankAddress::kVersion);
  EXPECT_TRUE(peer.is_closed());
  EXPECT_TRUE(job[0].wait_rejected(1));
}

TEST_F(UnauthenticatedClients, OfAnotherJobAreToldSoAndRejected) {
  std::uint64_t count = 0;
  for (const auto& [other, reason] :
       {std::pair{Identity(1, kSize, secret(Rank::kSecret + 1)), "it is of another job"},
        std::pair{Identity(1, kSize + 1, secret(Rank::kSecret)), "its job has 3 ranks"}}) {
    RawPeer peer(acceptor());
    const Handshake handshake = other.handshake(0);
    peer.send_record(handshake);
    const auto answer = peer.receive<Answer>();
    ASSERT_TRUE(answer);
    const std::string said = other.validate(handshake, *answer);
    EXPECT_NE(said.find(reason), std::string::npos) << said;
    EXPECT_TRUE(peer.is_closed());
    EXPECT_TRUE(job[0].wait_rejected(++count));
  }
}

TEST_F(UnauthenticatedClients, ThatTookARanksNumberAreToldWhyTheyAreNotLetIn) {
  RawPeer first(acceptor());
  ASSERT_TRUE(first.authenticate(kRank1, 0));
  EXPECT_TRUE(job[0].wait_met(1));
  RawPeer second(acceptor());
  EXPECT_FALSE(second.authenticate(kRank1, 0));
  const auto refusal = second.receive<Refusal>();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->text(), "it is connected already");
  EXPECT_FALSE(job[0].has_ended(1));
}

TEST_F(UnauthenticatedClients, GainNothingByReplay) {
  RawPeer genuine(acceptor());
  ASSERT_TRUE(genuine.authenticate(kRank1, 0));
  EXPECT_TRUE(job[0].wait_met(1));
  RawPeer replay(acceptor());
  replay.send_record(genuine.handshake);
  const auto answer = replay.receive<Answer>();
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->handshake.nonce, genuine.answer.handshake.nonce);
  replay.send_record(genuine.proof);
  EXPECT_TRUE(replay.is_closed());
  EXPECT_TRUE(job[0].wait_rejected(1));
  EXPECT_FALSE(job[0].has_ended(1));
}

TEST_F(UnauthenticatedClients, GainNothingByReflection) {
  RawPeer mirror(acceptor());
  mirror.send_record(kRank1.handshake(0));
  const auto answer = mirror.receive<Answer>();
  ASSERT_TRUE(answer);
  mirror.send_record(Proof{answer->mac});
  EXPECT_TRUE(mirror.is_closed());
  EXPECT_TRUE(job[0].wait_rejected(1));
}

TEST_F(UnauthenticatedClients, MayTalkRubbish) {
  std::uint64_t count = 0;
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\nHost: weft\r\nUser-Agent: a browser\r\nAccept: *\r\n\r\n"),
        std::string(100'000, '\0'), std::string(sizeof(Handshake), '\xff')}) {
    RawPeer peer(acceptor());
    peer.send(text);
    EXPECT_TRUE(peer.is_closed());
    EXPECT_TRUE(job[0].wait_rejected(++count));
  }
}

TEST(SlowUnauthenticatedClients, AreCutOff) {
  Job job(2, settings().with(Setting::init_timeout, "2s"));
  job.start();
  RawPeer peer(job[0].address.connector);
  const auto handshake = Identity(1, 2, secret(Rank::kSecret)).handshake(0);
  const auto start = std::chrono::steady_clock::now();
  for (const std::byte b : std::as_bytes(std::span(&handshake, 1))) {
    if (!peer.send(std::span(&b, 1))) break;
    if (peer.readable(200ms)) break;
  }
  EXPECT_TRUE(peer.is_closed());
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 1900ms);
  EXPECT_LE(took, 6s);
  EXPECT_TRUE(job[0].wait_rejected(1));
  EXPECT_FALSE(job[0].has_ended(1));
}

TEST_F(UnauthenticatedClients, MayScanThePort) {
  for (int i = 0; i < 100; ++i) RawPeer scan(acceptor());
}

/// Rank 2 gets in as if there were no other clients. Simultaneous connections may wait for the
/// system's listen queue.
void expect_let_in(Job& job) {
  const auto start = std::chrono::steady_clock::now();
  job[0].connect(2);
  job[2].connect(0);
  EXPECT_TRUE(job[0].wait_met(2));
  EXPECT_LE(std::chrono::steady_clock::now() - start, 2s);
}

TEST_F(UnauthenticatedClients, DoNotKeepARankOutByTheirNumber) {
  std::vector<RawPeer> idle;
  for (int i = 0; i < 600; ++i) idle.emplace_back(acceptor());
  expect_let_in(job);
}

TEST_F(UnauthenticatedClients, DoNotKeepARankOutByReconnectingForever) {
  std::atomic<bool> stopping{false};
  std::thread flood([&] {
    std::deque<RawPeer> calls;
    while (!stopping) {
      calls.emplace_back(acceptor());
      // Every second client sends a handshake that may be a rank's.
      if (calls.size() % 2 == 0) calls.back().send_record(kRank1.handshake(0));
      if (calls.size() > 700) calls.pop_front();
    }
  });
  EXPECT_TRUE(weft::tests::soon([&] { return job[0].rejected_connections() >= 1000; }, 30s));
  expect_let_in(job);
  stopping = true;
  flood.join();
}

TEST_F(UnauthenticatedClients, AreNamedInALineForAllOfThem) {
  testing::internal::CaptureStderr();
  int port = 0;
  {
    Rank loud(0, kSize, settings().with(Setting::log, "warn"));
    loud.start(job.addresses());
    port = loud.address.connector.port;
    for (int i = 0; i < 20; ++i) {
      RawPeer peer(loud.address.connector);
      peer.send(std::string(sizeof(Handshake), 'x'));
      EXPECT_TRUE(peer.is_closed());
    }
    EXPECT_TRUE(loud.wait_rejected(20));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            fmt::format("weft[here:0] warning path: 1 connection(s) rejected, the last at port {} "
                        "from 127.0.0.1: it does not speak weft's protocol\n",
                        port));
}

/// The job's own ranks look like this when they call a rank that has few descriptors left.
TEST_F(UnauthenticatedClients, AreNotAccusedWhenThisProcessLacksDescriptors) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer itself needs descriptors, to look at memory";
#endif
  testing::internal::CaptureStderr();
  {
    Rank loud(0, kSize, settings().with(Setting::log, "warn"));
    loud.start(job.addresses());
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(STDIN_FILENO);
    ASSERT_GE(next, 0);
    ::close(next);
    // Fewer than a rank leaves free of callers that have said nothing.
    const rlimit few{static_cast<rlim_t>(next) + 14, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    {
      RawPeer first(loud.address.connector);
      RawPeer second(loud.address.connector);
      EXPECT_TRUE(first.is_closed());
    }
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(loud.rejected_connections(), 0U);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("this process lacks descriptors: it closed 1 connection(s)"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("rejected"), std::string::npos) << said;
}

TEST_F(UnauthenticatedClients, CanNotBreakARankThatRunsOutOfDescriptors) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer itself needs descriptors, to look at memory";
#endif
  // All descriptors but one are taken; that one is the unauthenticated client's own end.
  std::vector<os::Fd> taken;
  for (;;) {
    os::Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!next) break;
    taken.push_back(std::move(next));
  }
  taken.pop_back();
  RawPeer peer(acceptor());
  EXPECT_TRUE(job[0].wait_short());
  std::this_thread::sleep_for(300ms);
  EXPECT_LE(job[0].shortages(), 2U);  // it does not ask again and again
  taken.clear();
  // The client is accepted when there is a free descriptor again.
  EXPECT_TRUE(peer.authenticate(kRank1, 0));
  EXPECT_TRUE(job[0].wait_met(1));
}

}  // namespace
}  // namespace weft::p2p::tests
