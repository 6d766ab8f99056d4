// An exception from a task or a handler ends that task or handler only.
#include "p2p/progress/progress_thread.hpp"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/os/fd.hpp"

namespace weft::p2p {
namespace {

class ThrowingTask : public testing::Test {
 protected:
  ThrowingTask() {
    progress_.on_failure([this](const char* what) {
      const std::lock_guard lock(mutex_);
      reported_.emplace_back(what);
    });
  }
  /// Returns once all tasks that were posted before have run.
  void settle() {
    std::promise<void> done;
    progress_.post([&] { done.set_value(); });
    ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  }
  std::vector<std::string> reported() {
    const std::lock_guard lock(mutex_);
    return reported_;
  }

  std::mutex mutex_;
  std::vector<std::string> reported_;
  ProgressThread progress_;
};

TEST_F(ThrowingTask, GoesOnAfterATaskThatThrows) {
  progress_.start();
  progress_.post([] { throw std::runtime_error("a task"); });
  progress_.post([] { throw std::bad_alloc(); });
  settle();
  EXPECT_EQ(reported().size(), 2U);
  EXPECT_EQ(reported().front(), "a task");
}

TEST_F(ThrowingTask, GoesOnAfterAHandlerThatThrows) {
  const os::Fd event(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  progress_.watch(event.get(), EPOLLIN, [&](std::uint32_t) {
    std::uint64_t count = 0;
    (void)!::read(event.get(), &count, sizeof count);
    throw std::runtime_error("a handler");
  });
  progress_.start();
  while (reported().empty()) settle();
  settle();
  EXPECT_EQ(reported(), std::vector<std::string>{"a handler"});
  progress_.stop();
}

TEST_F(ThrowingTask, GoesOnAfterALookThatThrows) {
  progress_.before_sleep([] { throw 7; });  // nothing that could be put in words
  progress_.start();
  settle();
  settle();
}

TEST_F(ThrowingTask, HandsOnWhatARunTaskThrowsAndNothingElse) {
  progress_.start();
  progress_.post([] { throw std::runtime_error("a task"); });
  EXPECT_THROW(progress_.run([] { throw std::logic_error("mine"); }), std::logic_error);
  settle();
  EXPECT_EQ(reported(), std::vector<std::string>{"a task"});
}

}  // namespace
}  // namespace weft::p2p
