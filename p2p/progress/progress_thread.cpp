#include "p2p/progress/progress_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>

#include "base/os/system_error.hpp"
#include "base/os/thread_shortage.hpp"

namespace weft::p2p {
namespace {

[[noreturn]] void fail(const char* operation) { os::throw_system_error(operation, ""); }

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
  // The progress thread blocks all signals: the application's own threads handle them.
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
    os::throw_thread_shortage("join", error);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ProgressThread::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  wake();
  thread_.join();
  std::vector<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(tasks_);
}

void ProgressThread::enqueue(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake();
}

void ProgressThread::on_lost_task() noexcept {
  lost_task_.store(true);
  wake();
}

void ProgressThread::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

template <typename Act>
void ProgressThread::guard(const Act& act) noexcept {
  try {
    try {
      act();
    } catch (const std::exception& error) {
      if (report_) report_(error.what());
    }
  } catch (...) {
    // Either there is no memory for the report, or the exception has no text.
  }
}

void ProgressThread::check_tasks() noexcept {
  if (before_sleep_) guard(before_sleep_);
}

void ProgressThread::turn_soon() noexcept {
  if (timer_set_.exchange(true)) return;
  itimerspec soon{};
  soon.it_value.tv_nsec = 500'000;
  ::timerfd_settime(timer_.get(), 0, &soon, nullptr);
}

void ProgressThread::run(const std::function<void()>& task) {
  // Run on the calling thread: handing over to the progress thread and back costs two context
  // switches.
  const std::lock_guard turn(turn_);
  run_tasks();
  task();
  check_tasks();  // the progress thread may sleep already
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
      check_tasks();
      return;
    }
  }
  // A progress thread, this rank's or a peer's, may be waiting for this processor.
  sched_yield();
  slow_helps_.fetch_add(1, std::memory_order_relaxed);
}

void ProgressThread::watch(int fd, std::uint32_t events, Handler handler) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = ++last_watch_;
  handlers_[last_watch_] = std::make_shared<Handler>(std::move(handler));
  const std::lock_guard lock(watches_mutex_);
  watches_[fd] = last_watch_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    handlers_.erase(last_watch_);
    watches_.erase(fd);
    fail("epoll_ctl");
  }
}

void ProgressThread::change(int fd, std::uint32_t events) noexcept {
  const std::lock_guard lock(watches_mutex_);
  const auto watch = watches_.find(fd);
  if (watch == watches_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = watch->second;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void ProgressThread::forget(int fd) noexcept {
  std::shared_ptr<Handler> forgotten;  // destroyed without the lock: it may own anything
  const std::lock_guard lock(watches_mutex_);
  const auto watch = watches_.find(fd);
  if (watch == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (const auto handler = handlers_.find(watch->second); handler != handlers_.end()) {
    forgotten = std::move(handler->second);
    handlers_.erase(handler);
  }
  watches_.erase(watch);
}

bool ProgressThread::run_tasks() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    due.swap(tasks_);
  }
  for (auto& task : due) {
    guard(task);
    guard([&] { task = nullptr; });  // what it holds goes before the next task runs
  }
  if (lost_task_.exchange(false)) [[unlikely]]
    guard([] { throw std::bad_alloc(); });
  return !due.empty();
}

void ProgressThread::handle(const Events& events, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    const auto found = handlers_.find(events[static_cast<std::size_t>(i)].data.u64);
    if (found == handlers_.end()) continue;  // forgotten after epoll_wait() returned its event
    const auto handler = found->second;      // keeps the handler alive if it forgets itself
    guard([&] { (*handler)(events[static_cast<std::size_t>(i)].events); });
  }
}

void ProgressThread::loop() {
  Events events{};
  while (!stopping_.load()) {
    bool busy = false;
    {
      const std::lock_guard turn(turn_);
      busy = run_tasks();
      if (!busy) check_tasks();
    }
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), busy ? 0 : -1);
    const std::lock_guard turn(turn_);
    handle(events, count);
  }
}

}  // namespace weft::p2p
