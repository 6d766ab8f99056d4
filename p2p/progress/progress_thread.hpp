// The rank's one thread for everything that is not on the data path.
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

/// An epoll loop over descriptors, and tasks posted to it. Handlers and tasks run one at a time, on
/// its thread or on one that took its turn; they must not block. What one throws ends that one
/// alone, and is reported. Sleeps when nothing is due.
class ProgressThread final : public Progress {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  ProgressThread();
  /// Stops and joins.
  ~ProgressThread() override;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void start() override;
  void stop() noexcept override;
  void post(std::function<void()> task) override;
  void run(const std::function<void()>& task) override;
  void help() noexcept override;
  void turn_soon() noexcept override;
  void before_sleep(std::function<void()> check_tasks) override {
    before_sleep_ = std::move(check_tasks);
  }
  /// Before start: told of what a task or handler threw, or that one could not be kept. What waits
  /// for it ends at its deadline.
  void on_failure(std::function<void(const char* what)> report) { report_ = std::move(report); }

  /// Progress thread only (or before start). `fd` stays the caller's and must be forgotten before
  /// it is closed.
  void watch(int fd, std::uint32_t events, Handler handler);
  /// Any thread, while the descriptor is watched.
  void change(int fd, std::uint32_t events) noexcept;
  void forget(int fd) noexcept;

 private:
  using Events = std::array<epoll_event, 64>;

  void loop();
  // Whoever has the turn.
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
  /// By a number that is never used again, which the kernel tells with each event: an event of a
  /// descriptor that was closed is not taken for one of the next descriptor of its number.
  std::unordered_map<std::uint64_t, std::shared_ptr<Handler>> handlers_;
  std::mutex watches_mutex_;                        ///< guards watches_
  std::unordered_map<int, std::uint64_t> watches_;  ///< by descriptor
  std::uint64_t last_watch_ = 0;
  std::function<void()> before_sleep_;
  std::function<void(const char*)> report_;
  std::atomic<bool> lost_task_{false};  ///< there was no memory to keep one
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weft::p2p
