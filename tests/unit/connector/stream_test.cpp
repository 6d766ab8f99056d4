// Streams, with periods that the test advances: no thread, no clock.
#include "p2p/transport/wireup/stream.hpp"

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
                       .beat_called = [](BeatCall) {},
                       .ended =
                           [this](Stream::How way, const std::string& why) {
                             how = way;
                             end = why;
                           }});
    pass(1);  // the first period counts as heard
  }

  /// Lets `periods` pass; returns the number of silent ones at the end.
  int pass(int periods) {
    int silent = 0;
    for (int i = 0; i < periods; ++i) silent = stream->tick(true);
    return silent;
  }
  /// The number of frames received since the last call.
  std::size_t received() {
    std::array<std::byte, 4096> bytes;
    const ssize_t got = ::recv(other.get(), bytes.data(), bytes.size(), 0);
    return got < 0 ? 0 : static_cast<std::size_t>(got) / 2;
  }
  void give_sign_of_life() { EXPECT_EQ(::send(other.get(), "\0\0", 2, MSG_NOSIGNAL), 2); }

  ProgressThread progress;  // not started: nothing is read unless a period makes it
  os::Fd other;
  std::string end;
  Stream::How how{};
  std::unique_ptr<Stream> stream;
};

TEST_F(StreamTest, CountsSilentPeriods) {
  EXPECT_EQ(pass(3), 3);
  EXPECT_EQ(pass(1), 4);
}

TEST_F(StreamTest, ReadsWhatWaitsBeforeItBelievesTheSilence) {
  give_sign_of_life();
  EXPECT_EQ(pass(1), 0);
  EXPECT_EQ(pass(3), 3);
}

TEST_F(StreamTest, CountsAnewAfterAnExcuse) {
  EXPECT_EQ(pass(3), 3);
  stream->excuse();
  EXPECT_EQ(pass(3), 3);
}

TEST_F(StreamTest, TellsWhomItGivesUpWhyAndStaysOpenUntilThatOneHasClosed) {
  (void)received();
  stream->give_up("silent for 1 s");
  std::array<char, 64> bytes{};
  EXPECT_EQ(::recv(other.get(), bytes.data(), bytes.size(), 0), 18);
  EXPECT_EQ(std::string(bytes.data(), 18), std::string("\xfd\xff\x0e\0silent for 1 s", 18));
  EXPECT_EQ(::recv(other.get(), bytes.data(), bytes.size(), 0), 0);
  give_sign_of_life();
  pass(1);
  EXPECT_TRUE(stream->is_open());
  other = os::Fd();
  pass(1);
  EXPECT_FALSE(stream->is_open());
  EXPECT_EQ(end, "");
}

TEST_F(StreamTest, HearsThatItWasGivenUpThoughTheWordsComeInPieces) {
  const std::string words("\0\0\xfd\xff\x03\0why", 9);
  for (const char byte : words) {
    ASSERT_EQ(::send(other.get(), &byte, 1, MSG_NOSIGNAL), 1);
    EXPECT_EQ(end, "");
    pass(1);
  }
  EXPECT_EQ(end, "why");
  EXPECT_EQ(how, Stream::How::given_up);
}

TEST_F(StreamTest, KnowsThatAProcessEndedByItsClosedConnection) {
  other = os::Fd();
  pass(1);
  EXPECT_EQ(how, Stream::How::process_ended);
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
