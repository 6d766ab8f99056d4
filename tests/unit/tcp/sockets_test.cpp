// The connections for data are looked at by the progress thread, or by a thread that waits.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/tcp/sockets.hpp"

namespace weft::p2p::tcp {
namespace {

using std::chrono::milliseconds;

/// A connection of which the test says what it has and what it lacks.
class Connection final : public Ready {
 public:
  Connection() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
    own_ = os::Fd(ends[0]);
    other_ = os::Fd(ends[1]);
  }
  int fd() const { return own_.get(); }
  void send() const { EXPECT_EQ(::write(other_.get(), "x", 1), 1); }

  bool receive() noexcept override {
    ++looks;
    std::array<char, 8> bytes{};
    return ::read(own_.get(), bytes.data(), bytes.size()) > 0;
  }
  bool flush() noexcept override { return false; }
  bool waits_for_room() const noexcept override { return waits.load(); }

  std::atomic<int> looks{0};
  std::atomic<bool> waits{false};

 private:
  os::Fd own_;
  os::Fd other_;
};

struct Rank {
  Rank() {
    progress.start();
    progress.run([&] { sockets.add(connection.fd(), connection.fd(), connection); });
  }
  ~Rank() {
    progress.run([&] { sockets.remove(connection.fd(), connection.fd()); });
    progress.stop();
  }

  /// Until a byte came by a poll: the progress thread may take some before.
  void receive_by_polling() {
    for (int i = 0; i < 10'000 && !sockets.are_polled(); ++i) {
      connection.send();
      if (!sockets.poll()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    EXPECT_TRUE(sockets.are_polled());
  }

  Connection connection;
  ProgressThread progress;
  Sockets sockets{progress};
};

// The thread that is to send has been driven off its processor, and holds the lock.
TEST(Sockets, LookNowAndThenAtWhatAnotherThreadIsToSend) {
  Rank rank;
  rank.connection.waits.store(true);
  rank.sockets.want_room(rank.connection.fd(), true);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_GT(rank.connection.looks.load(), 2);
  EXPECT_LT(rank.connection.looks.load(), 400)
      << "the progress thread takes a processor for itself";
}

TEST(Sockets, AreTheirsWhoReceivesByPolling) {
  Rank rank;
  EXPECT_FALSE(rank.sockets.are_polled());
  EXPECT_FALSE(rank.sockets.poll());
  EXPECT_FALSE(rank.sockets.are_polled()) << "nothing came: the thread may not poll for long";
  rank.receive_by_polling();
}

TEST(Sockets, GoBackToTheProgressThreadWhenNobodyPolls) {
  Rank rank;
  rank.receive_by_polling();
  for (int i = 0; i < 2'000 && rank.sockets.are_polled(); ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(rank.sockets.are_polled());
  const int before = rank.connection.looks.load();
  rank.connection.send();
  for (int i = 0; i < 2'000 && rank.connection.looks.load() == before; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GT(rank.connection.looks.load(), before) << "it is woken";
}

}  // namespace
}  // namespace weft::p2p::tcp
