// With WEFT_ENCRYPT=1 no process on the path can read or change the messages of connectors.
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/wireup/stream.hpp"
#include "tests/unit/connector/job.hpp"

namespace weft::p2p::tests {
namespace {

/// A relay from rank 1, which connects, to rank 0. It keeps the bytes that pass, and can flip a bit
/// of rank 1's bytes after rank 1 has been authenticated.
class Road {
 public:
  explicit Road(const ConnectorAddress& to)
      : to_(to), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    SocketAddress own = socket_address(to.ips[0], 0);
    EXPECT_EQ(::bind(listener_.get(), own.get(), own.size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listener_.get(), own.get(), &own.size), 0);
    address = to;
    address.count = 1;
    address.port = ntohs(reinterpret_cast<const sockaddr_in*>(own.get())->sin_port);
    thread_ = std::thread([this] { carry(); });
  }
  ~Road() {
    stopping_ = true;
    thread_.join();
  }

  ConnectorAddress address;
  std::atomic<bool> changes_next{false};

  std::string seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void carry() {
    const os::Fd from(accept());
    if (!from) return;
    const os::Fd to(::socket(AF_INET, SOCK_STREAM, 0));
    const SocketAddress there = socket_address(to_.ips[0], to_.port);
    if (::connect(to.get(), there.get(), there.size) != 0) return;
    while (!stopping_) {
      std::array<pollfd, 2> ends = {pollfd{from.get(), POLLIN, 0}, pollfd{to.get(), POLLIN, 0}};
      (void)::poll(ends.data(), ends.size(), 20);
      if ((ends[0].revents != 0 && !pass(from, to, true)) ||
          (ends[1].revents != 0 && !pass(to, from, false)))
        return;
    }
  }
  int accept() {
    pollfd at{listener_.get(), POLLIN, 0};
    while (!stopping_)
      if (::poll(&at, 1, 20) == 1) return ::accept(listener_.get(), nullptr, nullptr);
    return -1;
  }
  bool pass(const os::Fd& from, const os::Fd& to, bool from_caller) {
    std::array<char, 4096> bytes{};
    const ssize_t got = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    if (from_caller && changes_next.exchange(false)) bytes[static_cast<std::size_t>(got) - 1] ^= 1;
    {
      const std::lock_guard lock(mutex_);
      seen_.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return ::send(to.get(), bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
  }

  const ConnectorAddress to_;
  const os::Fd listener_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::string seen_;
  std::thread thread_;
};

/// Two ranks that are connected through a relay.
struct Pair {
  Pair(const char* first, const char* second) {
    for (const auto& [number, encrypts] : {std::pair(0, first), std::pair(1, second)})
      ranks.push_back(
          std::make_unique<Rank>(number, 2, settings().with(Setting::encrypt, encrypts)));
    std::vector<KnownRank> known = {ranks[0]->address, ranks[1]->address};
    road = std::make_unique<Road>(known[0].connector);
    known[0].connector = road->address;
    for (const auto& rank : ranks) rank->start(known);
    for (const auto& rank : ranks) rank->connect_all();
    for (const auto& rank : ranks) EXPECT_TRUE(rank->wait_all_met());
  }
  std::vector<std::unique_ptr<Rank>> ranks;
  std::unique_ptr<Road> road;
};

constexpr const char* kSaid = "what a rank says to another, in words that are found again";

TEST(SealedConnector, LetsNobodyOnTheWayReadWhatRanksSay) {
  for (const auto& [first, second] : {std::pair("1", "1"), std::pair("1", "0"), {"0", "1"}}) {
    Pair pair(first, second);
    pair.ranks[0]->send(1, kSaid);
    pair.ranks[1]->send(0, kSaid);
    EXPECT_EQ(pair.ranks[1]->wait_said(0, 1), std::vector<std::string>{kSaid});
    EXPECT_EQ(pair.ranks[0]->wait_said(1, 1), std::vector<std::string>{kSaid});
    EXPECT_EQ(pair.road->seen().find(std::string(kSaid).substr(0, 8)), std::string::npos);
    // The reason for dropping the peer is sealed too.
    pair.ranks[0]->drop(1);
    const auto end = pair.ranks[1]->wait_end(0);
    ASSERT_TRUE(end);
    EXPECT_NE(end->why.find("dropped"), std::string::npos) << end->why;
    EXPECT_EQ(pair.road->seen().find("dropped"), std::string::npos);
  }
}

TEST(SealedConnector, IsPlainWhereNeitherEndAsksForIt) {
  Pair pair("0", "0");
  pair.ranks[0]->send(1, kSaid);
  EXPECT_EQ(pair.ranks[1]->wait_said(0, 1), std::vector<std::string>{kSaid});
  EXPECT_NE(pair.road->seen().find(kSaid), std::string::npos);  // the road does see
}

TEST(SealedConnector, EndsWhenABitIsChangedOnTheWay) {
  Pair pair("1", "1");
  pair.ranks[1]->send(0, kSaid);
  EXPECT_EQ(pair.ranks[0]->wait_said(1, 1).size(), 1U);
  pair.road->changes_next = true;
  pair.ranks[1]->send(0, "the last byte of this is another when it arrives");
  const auto end = pair.ranks[0]->wait_end(1);
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->orderly);
  EXPECT_NE(end->why.find("changed on its way"), std::string::npos) << end->why;
  EXPECT_EQ(pair.ranks[0]->wait_said(1, 1).size(), 1U);
}

/// A stream whose other end is the test.
class SealedStream : public testing::Test {
 public:
  SealedStream() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    other = os::Fd(ends[1]);
    Stream::Events events{
        .said = [this](std::span<const std::byte>) { ++said; },
        .beat_called = [](BeatCall) {},
        .ended = [this](Stream::How, const std::string& reason) { why = reason; }};
    stream = std::make_unique<Stream>(progress, os::Fd(ends[0]), std::move(events),
                                      RecordCipher(kToOther, kToStream));
    put(own.header());
  }
  void put(std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// A message of one byte, sealed as the next record.
  std::vector<std::byte> next_record() {
    const std::array<std::byte, 3> frame = {std::byte{1}, std::byte{0}, std::byte{'x'}};
    std::vector<std::byte> record(2 + frame.size() + RecordCipher::kOverhead);
    record[0] = static_cast<std::byte>(record.size() - 2);
    own.seal(frame, std::span(record).subspan(2));
    return record;
  }
  /// Reads the bytes that have come; no other thread does, since progress is not started.
  void read() {
    for (int i = 0; i < 2; ++i) (void)stream->tick(false);
  }

  static constexpr RecordCipher::Key kToOther = {std::byte{1}};
  static constexpr RecordCipher::Key kToStream = {std::byte{2}};
  ProgressThread progress;
  RecordCipher own{kToStream, kToOther};
  os::Fd other;
  int said = 0;
  std::string why;
  std::unique_ptr<Stream> stream;
};

TEST_F(SealedStream, TakesRecordsInTheirOrderHoweverTheyAreCut) {
  for (int i = 0; i < 3; ++i)
    for (const std::byte b : next_record()) {
      put({&b, 1});
      read();
    }
  EXPECT_EQ(said, 3);
  EXPECT_TRUE(stream->is_open());
}

TEST_F(SealedStream, EndsAtARecordThatComesTwice) {
  const auto record = next_record();
  put(record);
  put(record);
  read();
  EXPECT_EQ(said, 1);
  EXPECT_NE(why.find("changed on its way"), std::string::npos) << why;
}

TEST_F(SealedStream, EndsWhereARecordIsLeftOut) {
  (void)next_record();
  put(next_record());
  read();
  EXPECT_EQ(said, 0);
  EXPECT_NE(why.find("changed on its way"), std::string::npos) << why;
}

TEST_F(SealedStream, EndsAtAFrameInPlain) {
  put(std::array{std::byte{1}, std::byte{0}, std::byte{'x'}});
  read();
  EXPECT_EQ(said, 0);
  EXPECT_FALSE(why.empty());
}

}  // namespace
}  // namespace weft::p2p::tests
