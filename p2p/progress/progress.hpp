// What is not on the data path runs here, one thing at a time.
#pragma once

#include <functional>

namespace weft::p2p {

/// A rank's tasks: on its progress thread, on an application thread that takes its turn, or
/// wherever a simulation runs them. Tasks must not block, and what one throws is its own end alone;
/// none runs beside another, and what is said to be the progress thread's belongs to whoever runs
/// one.
class Progress {
 public:
  virtual ~Progress() = default;

  virtual void start() = 0;
  /// No task runs once this has returned; those not begun are dropped.
  virtual void stop() noexcept = 0;

  /// Any thread.
  virtual void post(std::function<void()> task) = 0;
  /// Any thread: runs the task after those posted before, perhaps by itself; returns when it has
  /// ended and throws what it threw. Must not be called by a task, nor when nothing is started.
  virtual void run(const std::function<void()>& task) = 0;
  /// Any thread that waits for what a message will bring: does what is due now, if nobody does.
  /// Must not be called by a task.
  virtual void help() noexcept {}
  /// Any thread: makes `before_sleep` run within half a millisecond. Cheap when asked for often:
  /// what is usually settled before does not cost a wake-up each time.
  virtual void turn_soon() noexcept = 0;

  /// Before start: `look` runs whenever nothing is left to do. The last look at words that others
  /// write without a message.
  virtual void before_sleep(std::function<void()> look) = 0;
};

}  // namespace weft::p2p
