#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/cpus.hpp"
#include "base/os/fd.hpp"
#include "base/os/fork_mark.hpp"
#include "base/os/host_identity.hpp"
#include "base/os/mapping.hpp"
#include "base/os/numa.hpp"
#include "base/os/pidfd.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/error.hpp"

namespace weft::os {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

Fd open_null() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

Fd memory_file(std::size_t bytes) {
  Fd file(::memfd_create("weft-test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

TEST(Numa, PrefersANodeThatIsThere) {
  const auto mapping = Mapping::anonymous(4 << 20);
  EXPECT_FALSE(prefer_numa(mapping.data(), mapping.bytes(), -1));
  EXPECT_FALSE(prefer_numa(mapping.data(), mapping.bytes(), 1023));
  EXPECT_FALSE(prefer_numa(mapping.data(), mapping.bytes(), 1 << 20));
  if (!prefer_numa(mapping.data(), mapping.bytes(), 0)) {
    // ENOSYS: no NUMA in this kernel; EPERM: not for containers.
    GTEST_SKIP() << "the kernel takes no wishes on NUMA nodes here: " << std::strerror(errno);
  }
  int policy = -1;
  unsigned long nodes[16] = {};
  constexpr unsigned long kByAddress = 2;  // MPOL_F_ADDR
  constexpr int kPreferred = 1;            // MPOL_PREFERRED
  ASSERT_EQ(::syscall(SYS_get_mempolicy, &policy, nodes, 1024UL, mapping.data(), kByAddress), 0);
  EXPECT_EQ(policy, kPreferred);
  EXPECT_EQ(nodes[0], 1UL);
}

TEST(Numa, BindsToNodesThatAreThere) {
  const auto mapping = Mapping::anonymous(4 << 20);
  EXPECT_FALSE(bind_numa(mapping.data(), mapping.bytes(), std::array{-1}, -1));
  EXPECT_FALSE(bind_numa(mapping.data(), mapping.bytes(), std::array{1 << 20}, -1));
  EXPECT_FALSE(has_memory_policy());
  if (!bind_numa(mapping.data(), mapping.bytes(), std::array{0}, 0))
    GTEST_SKIP() << "the kernel binds no memory here: " << std::strerror(errno);
  int policy = -1;
  unsigned long nodes[16] = {};
  constexpr unsigned long kByAddress = 2;  // MPOL_F_ADDR
  constexpr int kBind = 2;                 // MPOL_BIND
  ASSERT_EQ(::syscall(SYS_get_mempolicy, &policy, nodes, 1024UL, mapping.data(), kByAddress), 0);
  EXPECT_EQ(policy, kBind);
  EXPECT_EQ(nodes[0], 1UL);
}

TEST(Fd, ClosesWhatItHolds) {
  int number = -1;
  {
    const auto fd = open_null();
    number = fd.get();
    ASSERT_TRUE(fd);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(Fd());
}

TEST(Fd, MovesWhatItHolds) {
  auto first = open_null();
  const int number = first.get();
  auto second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that it is empty is what is tested
  EXPECT_EQ(second.get(), number);
  auto third = open_null();
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_TRUE(is_open(number));
}

TEST(Fd, GivesUpWhatItReleases) {
  auto fd = open_null();
  const int number = fd.release();
  fd = {};
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(Mapping, SharesAFileWithItsOtherMappings) {
  const auto file = memory_file(8192);
  auto first = Mapping::shared(file, 8192);
  const auto second = Mapping::shared(file, 8192);
  first.data()[8191] = std::byte{42};
  EXPECT_EQ(second.data()[8191], std::byte{42});
  EXPECT_NE(first.data(), second.data());
  EXPECT_EQ(first.bytes(), 8192U);
}

TEST(Numa, TellsTheNodeOfProcessors) {
  const tests::TempFolder cpus;
  for (const char* const node : {"cpu0/node0", "cpu1/node0", "cpu2/node1", "cpu3/nodes"})
    std::filesystem::create_directories(cpus.path() / node);
  const auto node_of = [&](std::vector<int> of) { return numa_node_of(of, cpus.path()); };
  EXPECT_EQ(node_of({0, 1}), 0);
  EXPECT_EQ(node_of({2}), 1);
  EXPECT_EQ(node_of({1, 2}), -1) << "of two nodes";
  EXPECT_EQ(node_of({2, 3}), -1) << "one of which the kernel says nothing";
  EXPECT_EQ(node_of({9}), -1) << "it is not there";
  EXPECT_EQ(node_of({}), -1);
}

TEST(Mapping, LargerThanAllAddressSpaceIsExhausted) {
  try {
    (void)Mapping::anonymous(std::size_t{1} << 60);
    FAIL() << "it was mapped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted) << error.what();
  }
}

TEST(Mapping, IsUnmappedOnce) {
  std::byte* data = nullptr;
  {
    auto first = Mapping::anonymous(4096);
    data = first.data();
    const auto second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that it is empty is what is tested
    EXPECT_EQ(second.data(), data);
    unsigned char resident = 0;
    EXPECT_EQ(::mincore(data, 4096, &resident), 0);
  }
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(data, 4096, &resident), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(Mapping, ThrowsTheSystemsWords) {
  try {
    static_cast<void>(Mapping::shared(Fd(), 4096));
    FAIL() << "a mapping of no file";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::system);
    EXPECT_STREQ(error.what(), "mmap: system: 4096 bytes: Bad file descriptor");
  }
}

/// The exit status of `body` in a forked child; -1 if the child was killed.
template <typename Body>
int in_a_fork(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Mapping, OfAFileIsNotThereInAFork) {
  const auto file = memory_file(4096);
  auto shared = Mapping::shared(file, 4096);
  auto readable = Mapping::readable(file, 4096);
  unsigned char resident = 0;
  for (const auto* mapping : {&shared, &readable}) {
    EXPECT_EQ(::mincore(mapping->data(), 4096, &resident), 0);
    EXPECT_EQ(in_a_fork([&] {
                return ::mincore(mapping->data(), 4096, &resident) == -1 && errno == ENOMEM ? 7 : 0;
              }),
              7);
  }
  // Memory that the child maps at the same address stays when the Mapping is destroyed.
  EXPECT_EQ(in_a_fork([&] {
              void* const there = ::mmap(shared.data(), 4096, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
              if (there != shared.data()) return 1;
              { const Mapping gone = std::move(shared); }
              static_cast<volatile char*>(there)[0] = 7;
              return 7;
            }),
            7);
  shared.data()[0] = std::byte{1};  // the parent still has it
  EXPECT_EQ(readable.data()[0], std::byte{1});
}

TEST(ForkMark, TellsAForkFromTheProcessThatMadeIt) {
  const ForkMark mark;
  EXPECT_FALSE(mark.forked());
  EXPECT_EQ(in_a_fork([&] {
              // A fork may make its own marks, and its forks are recognised as well.
              const ForkMark own;
              if (!mark.forked() || own.forked()) return 1;
              return in_a_fork([&] { return mark.forked() && own.forked() ? 7 : 2; });
            }),
            7);
  EXPECT_FALSE(mark.forked());
  std::thread([&] { EXPECT_FALSE(mark.forked()); }).join();
}

TEST(Pidfd, IsReadableOnceTheProcessHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto fd = pidfd_open(child);
  pollfd end{fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 0), 0);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::poll(&end, 1, 10'000), 1);
  ::waitpid(child, nullptr, 0);

  try {
    static_cast<void>(pidfd_open(child));
    FAIL() << "a descriptor of no process";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::system);
    EXPECT_EQ(error.what(),
              "pidfd_open: system: pid " + std::to_string(child) + ": No such process");
  }
}

TEST(UsableCpus, FollowsTheAffinityOfTheThread) {
  double cpus = 0;
  std::thread([&] {
    const int here = ::sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(here, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    cpus = usable_cpus();
  }).join();
  EXPECT_DOUBLE_EQ(cpus, std::min(1.0, cpu_quota().value_or(1.0)));
  EXPECT_GE(usable_cpus(), cpus);
}

TEST(HostIdentity, IsTheSameWheneverAsked) {
  const auto first = host_identity();
  const auto second = host_identity();
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(first.name, second.name);
  EXPECT_FALSE(first.name.empty());
  EXPECT_NE(first.id, decltype(first.id){});
}

TEST(HostIdentity, DiffersInAnotherNetworkNamespace) {
  constexpr int kSame = 1;
  constexpr int kRefused = 2;
  const auto outside = host_identity();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(kRefused);
    ::_exit(host_identity().id == outside.id ? kSame : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kRefused)
    GTEST_SKIP() << "this user may not make a network namespace (root may)";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace weft::os
