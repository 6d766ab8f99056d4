// The rank's one thread for everything that is not on the data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/os/fd.hpp"

namespace weft::p2p {

/// An epoll loop over descriptors, and tasks posted to it. Handlers and tasks run on its thread,
/// one at a time; they must not throw or block. Sleeps when nothing is due.
class ProgressThread {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  ProgressThread();
  /// Stops and joins. Tasks not begun are dropped.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void start();
  void stop() noexcept;

  /// Any thread.
  void post(std::function<void()> task);
  /// Any thread: runs the task there, waits for its end and throws what it threw. Must not be
  /// called by a handler, nor when the loop does not run.
  void run(const std::function<void()>& task);

  /// Any thread: makes the loop turn within half a millisecond. Cheap when asked for often: what is
  /// usually settled before does not cost a wake-up each time.
  void turn_soon() noexcept;

  /// Progress thread only (or before start). `fd` stays the caller's and must be forgotten before
  /// it is closed.
  void watch(int fd, std::uint32_t events, Handler handler);
  void change(int fd, std::uint32_t events) noexcept;
  void forget(int fd) noexcept;

  /// Runs before each sleep: the last look at words that others write without a descriptor.
  void before_sleep(std::function<void()> look) { before_sleep_ = std::move(look); }

 private:
  void loop();
  bool run_tasks();

  os::Fd epoll_;
  os::Fd wake_;
  os::Fd timer_;
  std::atomic<bool> timer_set_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
  std::function<void()> before_sleep_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weft::p2p
