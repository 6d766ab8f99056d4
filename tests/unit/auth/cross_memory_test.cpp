// A process id does not identify a process for good: after its end another process may get the id.
#include "p2p/transport/shm/cross_memory.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/os/pidfd.hpp"

namespace weft::p2p {
namespace {

/// A process that waits until it is ended. Its memory at `word` is a copy of its own, from the time
/// of the fork.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
    pidfd_ = os::pidfd_open(pid_);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }

 private:
  pid_t pid_;
  os::Fd pidfd_;
};

std::array<std::byte, 64> word = {std::byte{7}};

std::uint64_t address() { return reinterpret_cast<std::uint64_t>(word.data()); }

bool is_allowed() {
  Child child;
  std::array<std::byte, 64> read{};
  return CrossMemory(child.pid(), child.pidfd()).read(read.data(), address(), read.size()).ok();
}

TEST(CrossMemoryTest, ReadsAndWritesAProcessThatLives) {
  if (!is_allowed()) GTEST_SKIP() << "the kernel does not let processes reach into each other";
  Child child;
  const CrossMemory memory(child.pid(), child.pidfd());
  std::array<std::byte, 64> to_write{};
  to_write.fill(std::byte{9});
  EXPECT_TRUE(memory.write(address(), to_write.data(), to_write.size()).ok());
  std::array<std::byte, 64> read{};
  EXPECT_TRUE(memory.read(read.data(), address(), read.size()).ok());
  EXPECT_EQ(read, to_write);
  EXPECT_EQ(word[0], std::byte{7});
}

TEST(CrossMemoryTest, TouchesNobodyElseOnceTheProcessHasEnded) {
  if (!is_allowed()) GTEST_SKIP() << "the kernel does not let processes reach into each other";
  Child ended;
  Child heir;  // as if it had got the number
  ended.end();
  const CrossMemory memory(heir.pid(), ended.pidfd());
  std::array<std::byte, 64> bytes{};
  bytes.fill(std::byte{9});
  EXPECT_EQ(memory.write(address(), bytes.data(), bytes.size()).code(), Code::peer_failed);
  const Tensor part = Tensor::wrap(bytes.data(), DType::u8, {64});
  EXPECT_EQ(memory.write(address(), std::span(&part, 1)).code(), Code::peer_failed);
  std::array<std::byte, 64> read{};
  EXPECT_EQ(memory.read(read.data(), address(), read.size()).code(), Code::peer_failed);
  EXPECT_TRUE(CrossMemory(heir.pid(), heir.pidfd()).read(read.data(), address(), read.size()).ok());
  EXPECT_EQ(read[0], std::byte{7});
}

}  // namespace
}  // namespace weft::p2p
