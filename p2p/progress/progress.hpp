// The rank's task queue for all work off the data path; one task runs at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <new>
#include <utility>

namespace weft::p2p {

/// Runs a rank's tasks: on its progress thread, on an application thread that takes the progress
/// thread's turn, or where a simulation schedules them. At most one task runs at a time. A task
/// must not block; an exception it throws ends that task alone. State marked "progress thread" in
/// weft belongs to the thread that runs the current task.
class Progress {
 public:
  virtual ~Progress() = default;

  virtual void start() = 0;
  /// After `stop()` returns no task runs; tasks that have not begun are dropped.
  virtual void stop() noexcept = 0;

  /// Enqueues `task`, a function without arguments. Any thread. Without memory for it the task is
  /// dropped, which is reported as its failure.
  template <typename Task>
  void post(Task&& task) noexcept {
    try {
      enqueue(std::function<void()>(std::forward<Task>(task)));
    } catch (const std::bad_alloc&) {
      on_lost_task();
    }
  }
  /// Runs `task` after those posted before it, possibly on the calling thread. Returns when `task`
  /// has ended and rethrows its exception. Any thread, but not from within a task, and only after
  /// `start()`.
  virtual void run(const std::function<void()>& task) = 0;
  /// Called by a thread that waits for a message: runs the due tasks if no other thread is running
  /// them. Any thread, but not from within a task.
  virtual void help() noexcept {}
  /// Counts the calls of help() that gave up the processor: each may have taken milliseconds.
  const std::atomic<std::uint32_t>& slow_helps() const noexcept { return slow_helps_; }
  /// Makes the `before_sleep` function run within 0.5 ms. Any thread. Frequent calls are cheap:
  /// they share one timer, so an event that is handled earlier costs no wake-up of its own.
  virtual void turn_soon() noexcept = 0;

  /// Registers `look`, which runs whenever no task is left, just before the progress thread sleeps:
  /// the last poll of words that peers write without a message. Call before `start()`.
  virtual void before_sleep(std::function<void()> look) = 0;

 protected:
  /// Throws std::bad_alloc.
  virtual void enqueue(std::function<void()> task) = 0;
  virtual void on_lost_task() noexcept = 0;

  std::atomic<std::uint32_t> slow_helps_{0};
};

}  // namespace weft::p2p
