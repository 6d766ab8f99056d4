// Periods pass when the test says so: no thread, no clock.
#include "p2p/connector/stream.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

namespace weft::p2p {
namespace {

class StreamTest : public testing::Test {
 public:
  StreamTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    other = os::Fd(ends[1]);
    stream = std::make_unique<Stream>(
        progress, os::Fd(ends[0]),
        Stream::Events{.said = [](std::span<const std::byte>) {},
                       .ended = [this](bool, const std::string& why) { end = why; }});
    pass(1);  // the first period counts as heard
  }

  static constexpr int kMost = 4;

  void pass(int periods) {
    for (int i = 0; i < periods; ++i) stream->tick(kMost, "silent");
  }
  /// Frames that came since the last time.
  std::size_t received() {
    std::array<std::byte, 4096> bytes;
    const ssize_t got = ::recv(other.get(), bytes.data(), bytes.size(), 0);
    return got < 0 ? 0 : static_cast<std::size_t>(got) / 2;
  }
  void give_sign_of_life() { EXPECT_EQ(::send(other.get(), "\0\0", 2, MSG_NOSIGNAL), 2); }

  ProgressThread progress;  // not started: nothing is read unless a period makes it
  os::Fd other;
  std::string end;
  std::unique_ptr<Stream> stream;
};

TEST_F(StreamTest, EndsAfterSoManySilentPeriods) {
  pass(kMost - 1);
  EXPECT_EQ(end, "");
  pass(1);
  EXPECT_EQ(end, "silent");
  EXPECT_FALSE(stream->is_open());
}

TEST_F(StreamTest, ReadsWhatWaitsBeforeItBelievesTheSilence) {
  give_sign_of_life();
  pass(kMost);
  EXPECT_EQ(end, "");
  pass(kMost - 1);
  EXPECT_EQ(end, "");
  pass(1);
  EXPECT_EQ(end, "silent");
}

TEST_F(StreamTest, CountsAnewAfterAnExcuse) {
  pass(kMost - 1);
  stream->excuse();
  pass(kMost - 1);
  EXPECT_EQ(end, "");
  pass(1);
  EXPECT_EQ(end, "silent");
}

TEST_F(StreamTest, GivesASignOfLifeInAPeriodInWhichItSaidNothing) {
  EXPECT_EQ(received(), 1U);
  const std::array<std::byte, 2> word{};
  stream->send(word);  // as long as two signs of life
  pass(1);
  EXPECT_EQ(received(), 2U);
  pass(2);
  EXPECT_EQ(received(), 2U);
}

TEST_F(StreamTest, SaysNothingAfterItsEnd) {
  (void)received();
  stream->send_end();
  stream->send(std::array<std::byte, 2>{});
  pass(1);
  EXPECT_EQ(received(), 1U);
}

}  // namespace
}  // namespace weft::p2p
