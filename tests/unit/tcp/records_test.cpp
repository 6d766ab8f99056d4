// Records arrive as they were sent, for all ways in which the connection splits them.
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "p2p/transport/tcp/checksum.hpp"
#include "p2p/transport/tcp/record_reader.hpp"
#include "p2p/transport/tcp/send_queue.hpp"

namespace weft::p2p::tcp {
namespace {

constexpr auto kChunk = static_cast<std::uint32_t>(ArenaSort::data) << 24;

std::array<os::Fd, 2> connection(int room = 0) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  if (room != 0)
    for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return {os::Fd(ends[0]), os::Fd(ends[1])};
}

/// Both ends of a TCP connection within this host.
std::array<os::Fd, 2> tcp_connection() {
  const os::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener.get(), any, size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), any, &size), 0);
  os::Fd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(caller.get(), any, size), 0);
  return {std::move(caller), os::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

/// Sends all bytes; once this returns, the other end can read them.
void send_all(const os::Fd& to, std::span<const std::byte> bytes) {
  ASSERT_EQ(::send(to.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
}

int unread(int socket) {
  int bytes = 0;
  EXPECT_EQ(::ioctl(socket, FIONREAD, &bytes), 0);
  return bytes;
}

/// Keeps the records that arrive.
class Kept final : public RecordSink {
 public:
  struct Record {
    Head head;
    std::vector<std::byte> payload;
  };
  bool begin(const Head& head, std::uint64_t already, std::vector<iovec>& places) override {
    EXPECT_EQ(already, 0U);
    payload_.resize(head.bytes);
    const std::size_t half = head.bytes / 2;
    if (half > 0) places.push_back({payload_.data(), half});
    places.push_back({payload_.data() + half, head.bytes - half});
    return true;
  }
  bool end(const Head& head) override {
    records.push_back({head, std::move(payload_)});
    payload_.clear();
    return true;
  }
  void malformed(const char* why) override { trouble = why; }

  std::vector<Record> records;
  std::string trouble;

 private:
  std::vector<std::byte> payload_;
};

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + seed);
  return all;
}

TEST(Records, ComeWholeWhateverTheirSizes) {
  auto ends = connection(4096);
  Pipe out_pipe(std::move(ends[0]));
  Pipe in_pipe(std::move(ends[1]));
  const Exports none;
  SendQueue out(out_pipe, none);
  RecordReader in(in_pipe);
  Kept kept;
  std::mt19937 random(3);
  std::vector<std::vector<std::byte>> sent;
  for (unsigned i = 0; i < 300; ++i) {
    const std::size_t most = i % 10 == 0 ? 300'000 : 200;
    sent.push_back(pattern(random() % most, i));
  }
  for (unsigned i = 0; i < sent.size(); ++i) {
    const Head head{.kind = Kind::put, .index = i, .bytes = sent[i].size()};
    const iovec run{sent[i].data(), sent[i].size()};
    const std::span<const iovec> runs(&run, sent[i].empty() ? 0U : 1U);
    std::size_t done = out.is_empty() ? out.send_now(head, runs) : 0;
    if (done < sizeof head + head.bytes) {
      Record& record = out.add(head);
      record.done = done;
      record.runs.assign(runs.begin(), runs.end());
    }
    if (i % 3 == 0) (void)in.turn(kept, 1 << 20);
    out.flush(1 << 16);
  }
  for (int i = 0; i < 100'000 && kept.records.size() < sent.size(); ++i) {
    out.flush(1 << 20);
    (void)in.turn(kept, 1 << 20);
  }
  ASSERT_EQ(kept.records.size(), sent.size());
  EXPECT_EQ(out.sent(), sent.size());
  EXPECT_EQ(out.error(), 0);
  for (unsigned i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(kept.records[i].head.index, i);
    ASSERT_EQ(kept.records[i].payload, sent[i]) << i;
  }
}

TEST(Records, AreReadByTheBytes) {
  auto ends = connection();
  Pipe in_pipe(std::move(ends[1]));
  RecordReader in(in_pipe);
  Kept kept;
  const auto payload = pattern(100, 5);
  std::vector<std::byte> wire(sizeof(Head));
  const Head head{.kind = Kind::message, .bytes = payload.size()};
  std::memcpy(wire.data(), &head, sizeof head);
  wire.insert(wire.end(), payload.begin(), payload.end());
  for (int round = 0; round < 3; ++round)
    for (const std::byte byte : wire) {
      ASSERT_EQ(::send(ends[0].get(), &byte, 1, 0), 1);
      EXPECT_EQ(in.turn(kept, 1 << 20), RecordReader::State::drained);
    }
  ASSERT_EQ(kept.records.size(), 3U);
  EXPECT_EQ(kept.records[2].payload, payload);
  ends[0] = {};
  EXPECT_EQ(in.turn(kept, 1 << 20), RecordReader::State::ended);
}

TEST(Records, ThatAreLongAreTakenInLargePieces) {
  auto ends = tcp_connection();
  const int socket = ends[1].get();
  Pipe in_pipe(std::move(ends[1]));
  RecordReader in(in_pipe);
  Kept kept;
  const auto payload = pattern(400'000, 9);
  const Head head{.kind = Kind::put, .bytes = payload.size()};
  const auto until_there = [&](int bytes) {
    for (int i = 0; i < 100'000 && unread(socket) < bytes; ++i) sched_yield();
    ASSERT_GE(unread(socket), bytes);
  };
  send_all(ends[0], std::as_bytes(std::span(&head, 1)));
  send_all(ends[0], std::span(payload).first(1000));
  until_there(sizeof head + 1000);
  EXPECT_EQ(in.turn(kept, 1 << 20), RecordReader::State::drained);
  EXPECT_EQ(unread(socket), 0);

  send_all(ends[0], std::span(payload).subspan(1000, 1000));
  until_there(1000);
  EXPECT_EQ(in.turn(kept, 1 << 20), RecordReader::State::drained);
  EXPECT_EQ(unread(socket), 1000) << "little of much must wait";
  in.take_any();
  EXPECT_EQ(in.turn(kept, 1 << 20), RecordReader::State::drained);
  EXPECT_EQ(unread(socket), 0) << "but not when it is asked for";

  std::jthread sender([&] { send_all(ends[0], std::span(payload).subspan(2000)); });
  for (int i = 0; i < 1'000'000 && kept.records.empty(); ++i) {
    EXPECT_NE(in.turn(kept, 1 << 20), RecordReader::State::failed);
    sched_yield();
  }
  ASSERT_EQ(kept.records.size(), 1U) << "its end must not wait";
  EXPECT_EQ(kept.records[0].payload, payload);
}

TEST(Records, ThatAreNoneEndTheConnection) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200; ++i) {
    auto ends = connection();
    Pipe in_pipe(std::move(ends[1]));
    RecordReader in(in_pipe);
    Kept kept;
    std::vector<std::byte> wire(sizeof(Head) + random() % 3000);
    for (std::byte& byte : wire) byte = static_cast<std::byte>(random());
    ASSERT_EQ(::send(ends[0].get(), wire.data(), wire.size(), 0),
              static_cast<ssize_t>(wire.size()));
    EXPECT_EQ(in.turn(kept, 1 << 20), RecordReader::State::failed);
    EXPECT_NE(kept.trouble, "");
    EXPECT_TRUE(kept.records.empty());
  }
}

TEST(Records, OfAReplyAreReadInTheirOrderAndOnlyWhereAllowed) {
  auto ends = connection();
  Pipe out_pipe(std::move(ends[0]));
  Pipe in_pipe(std::move(ends[1]));
  auto memory = pattern(10'000, 9);
  Exports exports;
  exports.add(kChunk, memory.data(), memory.size());
  SendQueue out(out_pipe, exports);
  RecordReader in(in_pipe);
  Kept kept;
  for (const bool is_there : {true, false}) {
    if (!is_there) exports.remove(kChunk);
    Record& record = out.add({.kind = Kind::reply, .index = 4, .bytes = 8 + 9000 + 8});
    record.pieces = {{.address = 0, .bytes = 8, .key = kChunk},
                     {.address = 500, .bytes = 9000, .key = kChunk},
                     {.address = 0, .bytes = 8, .key = kChunk}};
    out.flush(1 << 20);
    EXPECT_TRUE(out.is_empty());
    while (in.turn(kept, 1 << 20) == RecordReader::State::more) {
    }
    ASSERT_EQ(kept.records.size(), 2U);
    EXPECT_EQ(kept.records[1].head.kind, Kind::reply_end);
    EXPECT_EQ(kept.records[1].head.flags, is_there ? 1 : 0);
    std::vector<std::byte> expected(8 + 9000 + 8);
    if (is_there) {
      std::memcpy(expected.data(), memory.data(), 8);
      std::memcpy(expected.data() + 8, memory.data() + 500, 9000);
      std::memcpy(expected.data() + 9008, memory.data(), 8);
    }
    EXPECT_EQ(kept.records[0].payload, expected);
    kept.records.clear();
  }
}

/// Rejects heads whose own checksum is wrong.
class Checked final : public RecordSink {
 public:
  bool accepts(const Head& head) override { return head.head_sum == head_sum(head); }
  bool begin(const Head&, std::uint64_t, std::vector<iovec>&) override { return has_begun = true; }
  bool end(const Head&) override { return has_begun = true; }
  void malformed(const char*) override { has_begun = true; }

  bool has_begun = false;
};

TEST(Records, OfADamagedHeadReceiveNoPayloadWhicheverBitIsWrong) {
  Head head{.kind = Kind::put, .index = 3, .bytes = 512, .address = 1 << 20, .key = kChunk};
  head.checksum = 77;
  head.head_sum = head_sum(head);
  for (std::size_t bit = 0; bit < 8 * sizeof(Head); ++bit) {
    auto ends = connection();
    Pipe pipe(std::move(ends[1]));
    RecordReader in(pipe);
    Checked sink;
    std::vector<std::byte> wire(sizeof(Head) + head.bytes);
    std::memcpy(wire.data(), &head, sizeof head);
    wire[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    send_all(ends[0], wire);
    EXPECT_EQ(in.turn(sink, 1 << 20), RecordReader::State::failed) << bit;
    EXPECT_FALSE(sink.has_begun) << bit;
  }
}

TEST(Records, ThatAreUrgentGoBetweenThePartsOfALargeTensor) {
  auto ends = connection(4096);
  Pipe out_pipe(std::move(ends[0]));
  Pipe in_pipe(std::move(ends[1]));
  const Exports none;
  SendQueue out(out_pipe, none);
  RecordReader in(in_pipe);
  Kept kept;
  const auto tensor = pattern(400'000, 5);
  constexpr std::size_t kParts = 4;
  const std::size_t bytes = tensor.size() / kParts;
  for (std::size_t i = 0; i < kParts; ++i) {
    Record& record = out.add({.kind = i + 1 == kParts ? Kind::put : Kind::part, .bytes = bytes});
    record.runs.assign(1, {const_cast<std::byte*>(tensor.data()) + i * bytes, bytes});
  }
  EXPECT_EQ(out.waiting(), 1U);
  out.flush(1 << 20);  // the first one has begun
  for (std::uint64_t word = 1; word <= 3; ++word)
    (void)out.add_urgent({.kind = Kind::word, .address = 8 * word, .sequence = word});
  EXPECT_NE(out.find_urgent(Kind::word, 16, 0), nullptr);
  EXPECT_EQ(out.find_urgent(Kind::word, 32, 0), nullptr);
  while (!out.is_empty()) {
    (void)in.turn(kept, 1 << 20);
    out.flush(1 << 20);
    // The numbers count the records that are not urgent, in the order in which they were added.
    EXPECT_LE(out.sent(), kParts);
  }
  while (in.turn(kept, 1 << 20) == RecordReader::State::more || kept.records.size() < kParts + 3) {
  }
  EXPECT_EQ(out.sent(), kParts);
  ASSERT_EQ(kept.records.size(), kParts + 3);
  const std::array expected{Kind::part, Kind::word, Kind::word, Kind::word,
                            Kind::part, Kind::part, Kind::put};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(kept.records[i].head.kind, expected[i]) << i;
  EXPECT_TRUE(std::equal(tensor.end() - static_cast<std::ptrdiff_t>(bytes), tensor.end(),
                         kept.records.back().payload.begin()));
}

class SealedPipes : public testing::Test {
 public:
  RecordCipher::Key up{};
  RecordCipher::Key down{};
  void SetUp() override {
    up.fill(std::byte{1});
    down.fill(std::byte{2});
  }
};

TEST_F(SealedPipes, CarryWhatIsSentAndHideIt) {
  auto ends = connection(8192);
  Pipe a(std::move(ends[0]), RecordCipher(up, down));
  Pipe b(std::move(ends[1]), RecordCipher(down, up));
  const auto sent = pattern(500'000, 3);
  std::vector<std::byte> got(sent.size() + 10);
  std::size_t out = 0;
  std::size_t in = 0;
  for (int i = 0; i < 100'000 && in < sent.size(); ++i) {
    const iovec from{const_cast<std::byte*>(sent.data()) + out, sent.size() - out};
    out += a.send(std::span(&from, 1)).bytes;
    const iovec to{got.data() + in, std::min<std::size_t>(7777, got.size() - in)};
    const Pipe::Moved moved = b.receive(std::span(&to, 1));
    ASSERT_EQ(moved.error, 0);
    in += moved.bytes;
  }
  ASSERT_EQ(in, sent.size());
  got.resize(sent.size());
  EXPECT_EQ(got, sent);
}

TEST_F(SealedPipes, RefuseWhatTheOtherEndHasNotSealed) {
  auto ends = connection();
  auto middle = connection();
  Pipe a(std::move(ends[0]), RecordCipher(up, down));
  Pipe b(std::move(middle[1]), RecordCipher(down, up));
  const auto sent = pattern(1000, 3);
  const iovec from{const_cast<std::byte*>(sent.data()), sent.size()};
  ASSERT_EQ(a.send(std::span(&from, 1)).bytes, sent.size());
  std::array<std::byte, 4096> wire{};
  const ssize_t size = ::recv(ends[1].get(), wire.data(), wire.size(), 0);
  ASSERT_GT(size, 1000);
  wire[100] ^= std::byte{1};
  ASSERT_EQ(::send(middle[0].get(), wire.data(), static_cast<std::size_t>(size), 0), size);
  std::array<std::byte, 2000> got{};
  const iovec to{got.data(), got.size()};
  EXPECT_EQ(b.receive(std::span(&to, 1)).error, EBADMSG);
}

}  // namespace
}  // namespace weft::p2p::tcp
