// Ranks without a launcher find each other; if they don't, the error says why.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/auth/token_key.hpp"
#include "runtime/bootstrap/token/oob_allgather.hpp"
#include "runtime/bootstrap/token/oob_records.hpp"
#include "tests/unit/base/free_port.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/connector/raw_peer.hpp"
#include "weft/error.hpp"

namespace weft::bootstrap {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> bytes(std::string_view text) {
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

/// The result of one rank: "joined", or its error.
using Outcome = std::future<std::string>;

class OobAllgatherTest : public testing::Test {
 public:
  OobAllgather::Setup setup(int rank, int size, std::string_view token = "the job's token") {
    return {.rank = rank,
            .size = size,
            .address = {.host = "127.0.0.1", .port = port, .is_numeric = true},
            .key = p2p::token_key(token)};
  }

  /// Starts a rank that joins and takes part in `rounds` allgathers of its name.
  Outcome start(const OobAllgather::Setup& of, std::chrono::milliseconds patience = 10s,
                int rounds = 2) {
    return std::async(std::launch::async, [this, of, patience, rounds]() -> std::string {
      try {
        const auto deadline = Deadline::after(patience);
        const auto oob_allgather = of.rank == 0 ? serve_oob_allgather(of, Config(), *log, deadline)
                                                : connect_oob_allgather(of, deadline);
        for (int round = 0; round < rounds; ++round) {
          const auto name = [&](int rank) {
            return bytes("round " + std::to_string(round) + " of " + std::to_string(rank));
          };
          const Contributions words = oob_allgather->gather(name(of.rank), deadline);
          for (int rank = 0; rank < of.size; ++rank)
            EXPECT_EQ(words.at(static_cast<std::size_t>(rank)), name(rank));
        }
        return "joined";
      } catch (const Error& error) {
        return error.what();
      }
    });
  }

  /// A process of the job that is authenticated and then dies.
  void come_and_die(int rank, int size) {
    auto peer = client();
    const p2p::Identity identity(rank, size, p2p::token_key("the job's token"));
    peer.handshake = identity.handshake(0, p2p::Purpose::oob_allgather);
    peer.send_record(peer.handshake);
    const auto answer = peer.receive<p2p::Answer>();
    ASSERT_TRUE(answer);
    peer.send_record(identity.prove(peer.handshake, *answer));
    EXPECT_EQ(peer.receive<std::uint16_t>(), 0);
  }

  /// A client that connects once rank 0 listens.
  p2p::tests::RawPeer client() {
    p2p::ConnectorAddress address{.port = port, .count = 1};
    address.ips[0] = resolve(setup(0, 1).address).ips.at(0);
    for (int i = 0; i < 500; ++i) {
      try {
        return p2p::tests::RawPeer(address);
      } catch (const std::runtime_error&) {
        std::this_thread::sleep_for(10ms);
      }
    }
    throw std::runtime_error("rank 0 does not listen");
  }

  const std::uint16_t port = tests::free_port();
  /// Rank 0's.
  std::optional<Log> log{std::in_place, Config().with(Setting::log, "off"), "here", 0};
};

void expect_has(const std::string& line, std::string_view part) {
  EXPECT_NE(line.find(part), std::string::npos) << line;
}

TEST_F(OobAllgatherTest, BringsEveryRanksWordsToEveryOther) {
  std::vector<Outcome> ranks;
  // Rank 0 starts last: the others wait until it listens.
  for (int rank = 7; rank >= 0; --rank) {
    if (rank == 0) std::this_thread::sleep_for(100ms);
    ranks.push_back(start(setup(rank, 8)));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), "joined");
}

TEST_F(OobAllgatherTest, IsShortForAJobOfOne) { EXPECT_EQ(start(setup(0, 1)).get(), "joined"); }

TEST_F(OobAllgatherTest, NamesToEveryRankWhoNeverCame) {
  auto keeper = start(setup(0, 4), 700ms);
  auto member = start(setup(2, 4), 5s);
  for (const std::string& line : {keeper.get(), member.get()}) {
    expect_has(line, "never arrived");
    expect_has(line, "rank 1, rank 3");
    EXPECT_EQ(line.find("rank 2, "), std::string::npos) << line;
  }
}

TEST_F(OobAllgatherTest, SaysThatRankZeroWasNotReached) {
  const auto line = start(setup(1, 2), 400ms).get();
  expect_has(line, "rank 0 was not reached at 127.0.0.1:" + std::to_string(port));
  expect_has(line, "Connection refused");
}

TEST_F(OobAllgatherTest, KeepsTryingUntilTheDeadline) {
  const auto started = std::chrono::steady_clock::now();
  (void)start(setup(1, 2), 1200ms).get();
  EXPECT_GT(std::chrono::steady_clock::now() - started, 1100ms);
  auto early = start(setup(1, 2), 2500ms);
  std::this_thread::sleep_for(1900ms);
  EXPECT_EQ(start(setup(0, 2)).get(), "joined");
  EXPECT_EQ(early.get(), "joined");
}

TEST_F(OobAllgatherTest, RefusesARankWithAnotherTokenAtBothEnds) {
  auto keeper = start(setup(0, 2), 1500ms);
  const auto started = std::chrono::steady_clock::now();
  expect_has(start(setup(1, 2, "another token")).get(), "of another job, by the secret");
  EXPECT_LT(std::chrono::steady_clock::now() - started, 1400ms) << "it need not wait";
  const auto line = keeper.get();
  expect_has(line, "never arrived");
  expect_has(line, "1 connection(s) were rejected");
}

TEST_F(OobAllgatherTest, RefusesARankOfAJobOfAnotherSizeAtBothEnds) {
  auto keeper = start(setup(0, 3), 1500ms);
  expect_has(start(setup(1, 4)).get(), "its job has 3 ranks, this one 4");
  expect_has(keeper.get(), "rejected");
}

TEST_F(OobAllgatherTest, RefusesTheSecondOfTwoThatClaimARank) {
  const weft::tests::TempFolder folder;
  const auto file = folder.path() / "log";
  log.emplace(Config().with(Setting::log_file, file.string()), "here", 0);
  auto keeper = start(setup(0, 3), 3s);
  auto first = start(setup(1, 3), 5s);
  std::this_thread::sleep_for(300ms);
  expect_has(start(setup(1, 3)).get(), "another process is rank 1 already");
  auto other = start(setup(2, 3), 5s);
  EXPECT_EQ(keeper.get(), "joined");
  EXPECT_EQ(first.get(), "joined");
  EXPECT_EQ(other.get(), "joined");
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  expect_has(line, "1 connection(s) rejected, the last at port " + std::to_string(port));
  expect_has(line, "from 127.0.0.1: another process is rank 1 already");
}

TEST_F(OobAllgatherTest, RefusesASecondRankZero) {
  auto keeper = start(setup(0, 2), 5s);
  (void)client();
  expect_has(start(setup(0, 2), 1s).get(), "Address already in use");
  EXPECT_EQ(start(setup(1, 2)).get(), "joined");
  EXPECT_EQ(keeper.get(), "joined");
}

TEST_F(OobAllgatherTest, NamesARankOfAnotherVersionAtBothEnds) {
  auto keeper = start(setup(0, 2), 800ms);
  auto peer = client();
  const p2p::Identity identity(1, 2, p2p::token_key("the job's token"));
  p2p::Handshake handshake = identity.handshake(0, p2p::Purpose::oob_allgather);
  handshake.protocol.version += 1;
  peer.send_record(handshake);
  const auto protocol = peer.receive<p2p::Handshake::Protocol>();
  ASSERT_TRUE(protocol) << "it must learn the version of rank 0";
  EXPECT_EQ(protocol->version, p2p::RankAddress::kVersion);
  EXPECT_TRUE(peer.is_closed());
  expect_has(keeper.get(), "rejected");
}

TEST_F(OobAllgatherTest, NamesARankThatDiesAfterItCame) {
  auto keeper = start(setup(0, 3), 5s);
  auto dies = start(setup(1, 3), 5s, 1);
  auto survives = start(setup(2, 3), 5s);
  EXPECT_EQ(dies.get(), "joined");
  for (const std::string& line : {keeper.get(), survives.get()}) {
    expect_has(line, "rank 1 was lost");
    expect_has(line, "the process ended");
  }
}

TEST_F(OobAllgatherTest, LetsARankComeAgainThatDiedWhileItWaited) {
  auto keeper = start(setup(0, 3), 8s);
  come_and_die(1, 3);
  auto again = start(setup(1, 3), 5s);
  auto other = start(setup(2, 3), 5s);
  EXPECT_EQ(keeper.get(), "joined");
  EXPECT_EQ(again.get(), "joined");
  EXPECT_EQ(other.get(), "joined");
}

TEST_F(OobAllgatherTest, DoesNotCountARankThatDiedWhileItWaited) {
  auto keeper = start(setup(0, 3), 8s);
  come_and_die(1, 3);
  auto other = start(setup(2, 3), 5s);
  std::this_thread::sleep_for(200ms);  // the other one is there by now: all have come, once
  auto again = start(setup(1, 3), 5s);
  EXPECT_EQ(keeper.get(), "joined");
  EXPECT_EQ(again.get(), "joined");
  EXPECT_EQ(other.get(), "joined");
}

TEST_F(OobAllgatherTest, NamesARankThatDiedWhileItWaited) {
  auto keeper = start(setup(0, 3), 500ms);
  come_and_die(1, 3);
  const std::string outcome = keeper.get();
  EXPECT_NE(outcome.find("ended before all others arrived: rank 1"), std::string::npos) << outcome;
  EXPECT_NE(outcome.find(": rank 2; arrived, but ended"), std::string::npos) << outcome;
}

TEST_F(OobAllgatherTest, IsNotHeldUpByUnauthenticatedClients) {
  auto keeper = start(setup(0, 2), 8s);
  std::vector<p2p::tests::RawPeer> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(client());
  for (int i = 0; i < 25; ++i) clients[static_cast<std::size_t>(i)].send(std::string(300, 'x'));
  EXPECT_EQ(start(setup(1, 2), 5s).get(), "joined");
  EXPECT_EQ(keeper.get(), "joined");
}

TEST(OobRecords, AreRefusedUnlessTheyAreWhole) {
  const Contributions words = {bytes("one"), {}, bytes("three")};
  const auto table = table_of(words);
  EXPECT_EQ(parse_table(table, 3), words);
  EXPECT_EQ(parse_table(table, 2), std::nullopt);
  EXPECT_EQ(parse_table(table, 4), std::nullopt);
  for (std::size_t length = 0; length < table.size(); ++length)
    EXPECT_EQ(parse_table(std::span(table).first(length), 3), std::nullopt) << length;

  const auto failure =
      failure_record({.code = Code::timeout, .message = std::string(5000, 'm'), .peer = 4});
  EXPECT_LE(failure.size(), kMostRecord);
  const auto parsed = parse_record(failure);
  ASSERT_TRUE(parsed && parsed->failure);
  EXPECT_EQ(parsed->failure->peer, 4);
  EXPECT_EQ(parsed->failure->code, Code::timeout);
  EXPECT_FALSE(parse_record({}));
  EXPECT_FALSE(parse_record(std::span(failure).first(3)));
  EXPECT_FALSE(parse_record(bytes("\x01too short")));
}

}  // namespace
}  // namespace weft::bootstrap
