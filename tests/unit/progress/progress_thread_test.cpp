// The kernel reuses descriptor numbers; the handler of a closed descriptor must not be called for
// its successor.
#include "p2p/progress/progress_thread.hpp"

#include <gtest/gtest.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/os/fd.hpp"

namespace weft::p2p {
namespace {

os::Fd event(unsigned count) {
  os::Fd fd(::eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK));
  EXPECT_TRUE(fd);
  return fd;
}

TEST(ProgressThreadTest, TakesNoEventOfAClosedDescriptorForOneOfItsNumbersNextOwner) {
  ProgressThread progress;  // not started: this thread helps
  std::array<os::Fd, 2> ready = {event(1), event(1)};
  os::Fd next;
  int told = 0;
  int told_wrongly = 0;
  for (std::size_t i = 0; i < 2; ++i)
    progress.watch(ready[i].get(), EPOLLIN, [&, i](std::uint32_t) {
      ++told;
      // The other descriptor has an event in the same round.
      os::Fd& other = ready[1 - i];
      const int number = other.get();
      progress.forget(number);
      other = os::Fd();
      next = event(0);
      ASSERT_EQ(next.get(), number);
      progress.watch(number, EPOLLIN, [&](std::uint32_t) { ++told_wrongly; });
      progress.forget(ready[i].get());
    });
  progress.help();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(told_wrongly, 0);
  const std::uint64_t one = 1;
  EXPECT_EQ(::write(next.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  progress.help();
  EXPECT_EQ(told_wrongly, 1);  // now it is its own
  progress.forget(next.get());
}

TEST(ProgressThreadTest, LetsGoOfATaskBeforeItRunsTheNext) {
  ProgressThread progress;  // not started: this thread runs the tasks
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  bool was_released = false;
  progress.post([held] { EXPECT_EQ(*held, 1); });
  progress.post([&] { was_released = watched.expired(); });
  held.reset();
  progress.run([] {});
  EXPECT_TRUE(was_released);
}

}  // namespace
}  // namespace weft::p2p
