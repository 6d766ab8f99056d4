#include "p2p/progress/progress_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <system_error>

#include "weft/error.hpp"

namespace weft::p2p {
namespace {

[[noreturn]] void fail(const char* operation) {
  throw Error(
      ErrorDetail{.code = Code::system, .operation = operation, .message = std::strerror(errno)});
}

}  // namespace

ProgressThread::ProgressThread()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (epoll_.get() < 0) fail("epoll_create1");
  if (wake_.get() < 0) fail("eventfd");
  if (timer_.get() < 0) fail("timerfd_create");
  watch(timer_.get(), EPOLLIN, [this](std::uint32_t) {
    std::uint64_t count = 0;
    (void)!::read(timer_.get(), &count, sizeof count);
    timer_set_.store(false);
  });
  watch(wake_.get(), EPOLLIN, [this](std::uint32_t) {
    std::uint64_t count = 0;
    while (::read(wake_.get(), &count, sizeof count) > 0) {
    }
  });
}

ProgressThread::~ProgressThread() { stop(); }

void ProgressThread::start() {
  // Signals are the application's: its own threads take them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "weft-progress");
      loop();
    });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ErrorDetail{.code = Code::exhausted,
                            .operation = "join",
                            .message = std::string("starting a thread: ") + error.what(),
                            .hint = "raise the limit of processes (ulimit -u, pids.max)"});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ProgressThread::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  thread_.join();
  std::vector<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(tasks_);
}

void ProgressThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void ProgressThread::turn_soon() noexcept {
  if (timer_set_.exchange(true)) return;
  itimerspec soon{};
  soon.it_value.tv_nsec = 500'000;
  ::timerfd_settime(timer_.get(), 0, &soon, nullptr);
}

void ProgressThread::run(const std::function<void()>& task) {
  // By this thread itself: waking the other one and being woken by it costs two switches.
  const std::lock_guard turn(turn_);
  run_tasks();
  task();
  if (before_sleep_) before_sleep_();  // the thread may sleep already
}

void ProgressThread::help() noexcept {
  {
    const std::unique_lock turn(turn_, std::try_to_lock);
    Events events{};
    const int count = turn.owns_lock() ? ::epoll_wait(epoll_.get(), events.data(),
                                                      static_cast<int>(events.size()), 0)
                                       : 0;
    if (count > 0) {
      handle(events, count);
      run_tasks();
      if (before_sleep_) before_sleep_();
      return;
    }
  }
  // A progress thread, this rank's or the other's, may be waiting for this processor.
  sched_yield();
}

void ProgressThread::watch(int fd, std::uint32_t events, Handler handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  handlers_[fd] = std::make_shared<Handler>(std::move(handler));
  ++watched_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    handlers_.erase(fd);
    fail("epoll_ctl");
  }
}

void ProgressThread::change(int fd, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void ProgressThread::forget(int fd) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
  ++watched_;
}

bool ProgressThread::run_tasks() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    due.swap(tasks_);
  }
  for (auto& task : due) task();
  return !due.empty();
}

void ProgressThread::handle(const Events& events, int count) {
  for (int i = 0; i < count; ++i) {
    const auto found = handlers_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found == handlers_.end()) continue;  // forgotten by an earlier handler of this round
    const auto handler = found->second;      // keeps it alive while it forgets itself
    (*handler)(events[static_cast<std::size_t>(i)].events);
  }
}

void ProgressThread::loop() {
  Events events{};
  while (!stopping_.load()) {
    bool busy = false;
    std::uint64_t watched = 0;
    {
      const std::lock_guard turn(turn_);
      busy = run_tasks();
      if (!busy && before_sleep_) before_sleep_();
      watched = watched_;
    }
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), busy ? 0 : -1);
    const std::lock_guard turn(turn_);
    // Who took the turn meanwhile may have closed a descriptor whose number is another's by now.
    // Whatever is still so will be told again.
    if (watched == watched_) handle(events, count);
  }
}

}  // namespace weft::p2p
