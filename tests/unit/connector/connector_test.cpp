// The guarantees that a connector gives its rank.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <set>
#include <thread>

#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/wireup/connect_attempt.hpp"

#include "tests/unit/connector/ip_of.hpp"
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
  for (const auto& rank : job) EXPECT_EQ(rank->rejected_connections(), 0U);
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
    job[0].close_here(1);
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
  job[0].close(1);
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
  const auto end = job[1].wait_end(0).value();
  EXPECT_FALSE(end.orderly);
  EXPECT_EQ(end.why, "it has given this rank up: dropped");
  job[0].send(1, "into the void");
  EXPECT_FALSE(job[0].has_ended(1));
}

TEST(Connector, HandsOverConnectionsForData) {
  Job job(2);
  job.connect();
  for (int rail = 0; rail < 2; ++rail) job[1].call_for_data(0, rail);
  std::set<ConnectionKeys::Key> keys;
  for (int rail = 0; rail < 2; ++rail) {
    DataConnection* client = job[1].wait_brought(0, rail);
    DataConnection* server = job[0].wait_brought(1, rail);
    ASSERT_NE(client, nullptr);
    ASSERT_NE(server, nullptr);
    EXPECT_FALSE(client->was_called);
    EXPECT_TRUE(server->was_called);
    EXPECT_EQ(client->keys.to_server, server->keys.to_server);
    EXPECT_EQ(client->keys.to_client, server->keys.to_client);
    keys.insert(client->keys.to_server);
    keys.insert(client->keys.to_client);
    // Only the user's bytes travel on this connection.
    ASSERT_EQ(::send(server->socket.get(), "down", 4, 0), 4);
    ASSERT_EQ(::send(client->socket.get(), "up", 2, 0), 2);
    for (const auto& [end, text] : {std::pair(client, "down"), std::pair(server, "up")}) {
      pollfd readable{end->socket.get(), POLLIN, 0};
      ASSERT_EQ(::poll(&readable, 1, 10'000), 1);
      std::array<char, 8> got{};
      EXPECT_EQ(::recv(end->socket.get(), got.data(), got.size(), 0),
                static_cast<ssize_t>(std::strlen(text)));
      EXPECT_STREQ(got.data(), text);
    }
  }
  EXPECT_EQ(keys.size(), 4U);  // one for each direction of each
  EXPECT_EQ(job[0].rejected_connections(), 0U);
}

/// Of another host that nobody has: for documentation (RFC 5737).
const IpAddress kNobody = ip("192.0.2.1");

TEST(Connector, WaitsForNoNetworkThatDoesNotAnswerIfAnotherDoes) {
  const Config config = settings().with(Setting::init_timeout, "2s");
  Job job(2, config);
  job.connect();
  const auto begun = Clock::now();
  job[1].call_for_data_by(0, {{kNobody}, {ip("127.0.0.1")}});
  ASSERT_NE(job[0].wait_brought(1, 1), nullptr);
  ASSERT_NE(job[1].wait_brought(0, 1), nullptr);
  EXPECT_LT(Clock::now() - begun, 2s) << "the other one has not been given up yet";
  const std::string why = job[1].wait_unanswered(0, 0);
  EXPECT_NE(why.find("no connection within 2 s"), std::string::npos) << why;
  EXPECT_NE(why.find("192.0.2.1"), std::string::npos) << why;
  EXPECT_FALSE(job[0].has_ended(1));
  EXPECT_FALSE(job[1].has_ended(0));
  EXPECT_EQ(job[0].brought_count(), 1U) << "twice by one network";
  job[0].send(1, "still here");
  EXPECT_EQ(job[1].wait_said(0, 1), std::vector<std::string>{"still here"});
}

TEST(Connector, CallsByTheOtherAddressesTooIfNoSharedNetworkLeadsThere) {
  const Config config = settings().with(Setting::init_timeout, "1s");
  Job job(2, config);
  job.connect();
  job[1].call_for_data_by(0, {{kNobody}, {ip("192.0.2.2")}});
  EXPECT_NE(job[1].wait_brought(0, 0), nullptr);
  EXPECT_NE(job[0].wait_brought(1, 0), nullptr);
}

TEST(Connector, CallsByTheOtherAddressesTooIfOneNetworkIsShared) {
  Job job(2);
  job.connect();
  job[1].call_for_data_by(0, {{kNobody}});
  EXPECT_NE(job[1].wait_brought(0, 0), nullptr);
  EXPECT_NE(job[0].wait_brought(1, 0), nullptr);
}

TEST(Connector, GivesNoConnectionForDataToARankThatItHasNotMet) {
  Job job(2);
  job.start();
  job[1].call_for_data(0, 0);
  job[1].thread().run([] {});
  job[0].connect(1);
  job[1].connect(0);
  // Each rank learns of it at its own time, and the caller has to know.
  ASSERT_TRUE(job[0].wait_met(1));
  ASSERT_TRUE(job[1].wait_met(0));
  job[1].call_for_data(0, 3);
  ASSERT_NE(job[0].wait_brought(1, 3), nullptr);
  EXPECT_EQ(job[0].brought_count(), 1U);
}

TEST(Connector, GivesUpARankThatIsNotMetYet) {
  Job job(2);
  job.start();
  job[0].connect(1);
  job[0].close(1);
  EXPECT_TRUE(job[0].wait_end(1).value().orderly);
}

TEST(Connector, SaysNothingOfARankThatItGaveUpAndDropped) {
  Job job(2);
  job.start();
  job[0].connect(1);
  job[0].thread().run([&] {
    job[0].close_here(1);
    job[0].drop_here(1);
  });
  job[0].thread().run([] {});
  EXPECT_FALSE(job[0].has_ended(1));
}

TEST(Connector, MeetsOverIpv6) {
  std::unique_ptr<Job> job;
  try {
    job = std::make_unique<Job>(2, settings().with(Setting::iface, "::1"));
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
  EXPECT_NE(end.why.find("no process listens there"), std::string::npos) << end.why;
  EXPECT_NE(end.why.find(fmt::format("127.0.0.1:{}", job[0].address.connector.port)),
            std::string::npos)
      << end.why;
}

TEST(Connector, MeetsOnceWhoeverCalls) {
  // In turn the lower rank connects, the higher rank, and both at once; the other rank does not
  // expect it.
  for (int round = 0; round < 30; ++round) {
    Job job(2);
    job.start();
    std::thread other;
    if (round % 3 != 0) other = std::thread([&] { job[1].call(0); });
    if (round % 3 != 1) job[0].call(1);
    if (other.joinable()) other.join();
    ASSERT_TRUE(job[0].wait_met(1));
    ASSERT_TRUE(job[1].wait_met(0));
    job[0].send(1, "up");
    job[1].send(0, "down");
    EXPECT_EQ(job[1].wait_said(0, 1), std::vector<std::string>{"up"});
    EXPECT_EQ(job[0].wait_said(1, 1), std::vector<std::string>{"down"});
    EXPECT_FALSE(job[0].has_ended(1));
    EXPECT_FALSE(job[1].has_ended(0));
  }
}

/// Rank 0's address, with another IP address before the true one.
std::vector<KnownRank> with_first_ip(std::vector<KnownRank> job, const char* ip) {
  ConnectorAddress& connector = job[0].connector;
  connector.ips[1] = connector.ips[0];
  connector.count = 2;
  std::array<std::byte, 4> v4{};
  EXPECT_EQ(::inet_pton(AF_INET, ip, v4.data()), 1);
  std::copy(v4.begin(), v4.end(), connector.ips[0].begin() + 12);
  return job;
}

TEST(Connector, TriesTheNextIpAddressWhenOneDoesNotLead) {
  // The network for documentation leads nowhere; at another loopback address no process listens.
  for (const char* ip : {"203.0.113.1", "127.0.0.77"}) {
    Job job(2);
    job.start(with_first_ip(job.addresses(), ip));
    job[1].connect(0);
    EXPECT_TRUE(job[1].wait_met(0)) << ip;
    EXPECT_TRUE(job[0].wait_met(1)) << ip;
  }
}

TEST(Connector, TriesTheNextIpAddressWhenOneLeadsElsewhere) {
  Job job(2);
  const auto known = with_first_ip(job.addresses(), "127.0.0.78");
  const SocketAddress elsewhere =
      socket_address(known[0].connector.ips[0], known[0].connector.port);
  const os::Fd mute(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(mute.get(), elsewhere.get(), elsewhere.size), 0);
  ASSERT_EQ(::listen(mute.get(), 8), 0);
  job.start(known);
  const auto start = std::chrono::steady_clock::now();
  job[1].connect(0);
  EXPECT_TRUE(job[1].wait_met(0));
  EXPECT_TRUE(job[0].wait_met(1));
  // The second address was tried in parallel, not after the first one had failed.
  EXPECT_LE(std::chrono::steady_clock::now() - start, 8s);
}

TEST(Connector, SaysWhatBecameOfEveryIpAddress) {
  Job job(2, settings().with(Setting::init_timeout, "1s"));
  auto known = with_first_ip(job.addresses(), "127.0.0.77");
  // At rank 0's own address rank 0 listens, under another rank's number.
  std::swap(known[0].connector.port, known[1].connector.port);
  known[0].connector.port = job[1].address.connector.port;
  job.start(known);
  job[1].connect(0);
  const auto end = job[1].wait_end(0).value();
  EXPECT_FALSE(end.orderly);
  const auto port = job[1].address.connector.port;
  EXPECT_EQ(end.why,
            fmt::format("no connection within 1 s (127.0.0.77:{0}: Connection refused; "
                        "127.0.0.1:{0}: connected, but it closed the connection); this rank is at "
                        "127.0.0.1:{0}; a firewall between the hosts? WEFT_IFACE names the network "
                        "to use",
                        port));
}

TEST(Connector, SaysThatARankNeverCalled) {
  Job job(2, settings().with(Setting::init_timeout, "1s"));
  job.start();
  job[0].connect(1);
  const auto end = job[0].wait_end(1).value();
  EXPECT_FALSE(end.orderly);
  EXPECT_NE(end.why.find("it was to call, from 127.0.0.1:"), std::string::npos) << end.why;
}

// The kernel calls 127.0.0.2 from 127.0.0.1.
TEST(Calls, GoByNoInterfaceThatWasNotNamed) {
  ProgressThread thread;
  thread.start();
  const Identity identity(1, 2, {});
  bool said = false;
  thread.run([&] {
    ConnectAttempt barred(thread, identity, {.rank = 0}, 9, {ip("127.0.0.2")}, {}, {},
                          {ip("192.168.7.2")});
    barred.begin();
    const auto why = barred.tick();
    ASSERT_TRUE(why);
    EXPECT_NE(why->find("WEFT_IFACE"), std::string::npos) << *why;
    EXPECT_NE(barred.text().find("from 127.0.0.1"), std::string::npos) << barred.text();
    // Its own addresses lead nowhere else.
    ConnectAttempt allowed(thread, identity, {.rank = 0}, 9, {ip("127.0.0.2")}, {}, {},
                           {ip("127.0.0.1")});
    allowed.begin();
    EXPECT_EQ(allowed.text().find("WEFT_IFACE"), std::string::npos) << allowed.text();
    said = true;
  });
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace weft::p2p::tests
