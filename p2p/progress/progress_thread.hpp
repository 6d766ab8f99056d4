// The rank's progress thread: runs everything that is not on the data path.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/progress/progress.hpp"

namespace weft::p2p {

/// An epoll loop that also runs posted tasks. Handlers and tasks run one at a time, on the progress
/// thread or on a thread that holds `turn_`, and must not block. An exception ends only the handler
/// or task that threw it and is reported through on_failure(). The thread sleeps when nothing is
/// due.
class ProgressThread final : public Progress {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  ProgressThread();
  /// Stops the loop and joins the thread.
  ~ProgressThread() override;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void start() override;
  void stop() noexcept override;
  void run(const std::function<void()>& task) override;
  void help() noexcept override;
  void turn_soon() noexcept override;
  void before_sleep(std::function<void()> check_tasks) override {
    before_sleep_ = std::move(check_tasks);
  }
  /// Registers the function that is told what a task or handler threw, or that memory ran out for a
  /// posted task. Operations that depend on a failed task end at their deadline. Call before
  /// start().
  void on_failure(std::function<void(const char* what)> report) { report_ = std::move(report); }

  /// Calls `handler` for `events` of `fd`. The caller keeps owning `fd` and must call forget()
  /// before closing it. Progress thread, or before start().
  void watch(int fd, std::uint32_t events, Handler handler);
  /// Replaces the watched events of `fd`, if it is watched. Any thread.
  void change(int fd, std::uint32_t events) noexcept;
  void forget(int fd) noexcept;

 protected:
  void enqueue(std::function<void()> task) override;
  void on_lost_task() noexcept override;

 private:
  using Events = std::array<epoll_event, 64>;

  void loop();
  // Caller holds `turn_`.
  bool run_tasks();
  void handle(const Events& events, int count) noexcept;
  void check_tasks() noexcept;
  template <typename Act>
  void guard(const Act& act) noexcept;
  void wake() noexcept;

  os::Fd epoll_;
  os::Fd wake_;
  os::Fd timer_;
  std::atomic<bool> timer_set_{false};
  std::mutex mutex_;  ///< guards tasks_
  std::vector<std::function<void()>> tasks_;
  std::mutex turn_;  ///< held while tasks or handlers run
  /// Keyed by a number that is never reused and that epoll returns with each event, so a late event
  /// of a closed descriptor never reaches the handler of a new one with the same number.
  std::unordered_map<std::uint64_t, std::shared_ptr<Handler>> handlers_;
  std::mutex watches_mutex_;                        ///< guards watches_
  std::unordered_map<int, std::uint64_t> watches_;  ///< descriptor -> key in handlers_
  std::uint64_t last_watch_ = 0;
  std::function<void()> before_sleep_;
  std::function<void(const char*)> report_;
  std::atomic<bool> lost_task_{false};  ///< a posted task was dropped because memory ran out
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weft::p2p
