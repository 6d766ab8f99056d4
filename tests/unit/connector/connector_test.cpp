// What ranks that have a connector can rely on.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>

#include "tests/unit/connector/job.hpp"

namespace weft::p2p::tests {
namespace {

TEST(Connector, MeetsEveryPairOnce) {
  Job job(8);
  job.connect();
  for (int from = 0; from < 8; ++from)
    for (int to = 0; to < 8; ++to)
      if (from != to) job[from].send(to, fmt::format("{} to {}", from, to));
  for (int from = 0; from < 8; ++from)
    for (int to = 0; to < 8; ++to) {
      if (from == to) continue;
      EXPECT_EQ(job[to].wait_said(from, 1), std::vector{fmt::format("{} to {}", from, to)});
    }
  for (const auto& rank : job) EXPECT_EQ(rank->turned_away(), 0U);
}

TEST(Connector, KeepsTheOrderOfMessagesBothWays) {
  constexpr int kMessages = 1000;
  Job job(2);
  job.connect();
  const auto message = [](int from, int number) {
    std::string text = fmt::format("{}:{}:", from, number);
    text.resize(static_cast<std::size_t>(1 + number % 1024), '.');
    return text;
  };
  for (int from = 0; from < 2; ++from)
    job[from].thread().run([&] {
      for (int i = 0; i < kMessages; ++i) job[from].send_here(1 - from, message(from, i));
    });
  for (int from = 0; from < 2; ++from) {
    const auto said = job[1 - from].wait_said(from, kMessages);
    ASSERT_EQ(said.size(), std::size_t{kMessages});
    for (int i = 0; i < kMessages; ++i)
      ASSERT_EQ(said[static_cast<std::size_t>(i)], message(from, i)) << i;
  }
}

TEST(Connector, QueuesWhatAPeerDoesNotReadYet) {
  constexpr int kMessages = 20'000;  // 20 MB: more than sockets hold
  Job job(2);
  job.connect();
  std::mutex gate;
  gate.lock();
  job[1].thread().post([&] { const std::lock_guard wait(gate); });
  const std::string body(1000, 'x');
  job[0].thread().run([&] {
    for (int i = 0; i < kMessages; ++i) job[0].send_here(1, body + std::to_string(i));
    job[0].goodbye_here(1);
  });
  gate.unlock();
  const auto said = job[1].wait_said(0, kMessages);
  ASSERT_EQ(said.size(), std::size_t{kMessages});
  for (int i = 0; i < kMessages; ++i)
    ASSERT_EQ(said[static_cast<std::size_t>(i)], body + std::to_string(i));
  EXPECT_TRUE(job[1].wait_end(0).value().orderly);
}

TEST(Connector, TellsAnOrderlyEndFromADeath) {
  Job job(3);
  job.connect();
  job[0].send(1, "last words");
  job[0].goodbye(1);
  const auto left = job[1].wait_end(0).value();
  EXPECT_TRUE(left.orderly);
  EXPECT_EQ(job[1].wait_said(0, 1), std::vector<std::string>{"last words"});
  EXPECT_TRUE(job[0].wait_end(1).value().orderly);

  job[0].send(2, "last words");
  job[0].die();
  const auto died = job[2].wait_end(0).value();
  EXPECT_FALSE(died.orderly);
  EXPECT_EQ(died.why, "its connection was closed: the process ended");
  EXPECT_EQ(job[2].wait_said(0, 1), std::vector<std::string>{"last words"});
}

TEST(Connector, SaysNothingMoreOfARankThatItDropped) {
  Job job(2);
  job.connect();
  job[0].drop(1);
  EXPECT_FALSE(job[1].wait_end(0).value().orderly);
  job[0].send(1, "into the void");
  EXPECT_FALSE(job[0].has_ended(1));
}

TEST(Connector, GivesUpARankThatIsNotMetYet) {
  Job job(2);
  job.start();
  job[0].connect(1);
  job[0].goodbye(1);
  EXPECT_TRUE(job[0].wait_end(1).value().orderly);
}

TEST(Connector, MeetsOverIpv6) {
  std::unique_ptr<Job> job;
  try {
    job = std::make_unique<Job>(2, settings().with(Knob::iface, "::1"));
  } catch (const Error& error) {
    GTEST_SKIP() << "no ::1 here: " << error.what();
  }
  job->connect();
  (*job)[0].send(1, "six");
  EXPECT_EQ((*job)[1].wait_said(0, 1), std::vector<std::string>{"six"});
}

TEST(Connector, TakesARankForDeadWhoseHostSaysThatNobodyListens) {
  Job job(2);
  job[0].die();
  job[1].start(job.addresses());
  job[1].connect(0);
  const auto end = job[1].wait_end(0).value();
  EXPECT_FALSE(end.orderly);
  EXPECT_NE(end.why.find("nobody listens there"), std::string::npos) << end.why;
  EXPECT_NE(end.why.find(fmt::format("127.0.0.1:{}", job[0].address.connector.port)),
            std::string::npos)
      << end.why;
}

}  // namespace
}  // namespace weft::p2p::tests
