// Tells a world that its process is about to end.
#pragma once

#include <functional>

#include "p2p/progress/progress_thread.hpp"

namespace weft::detail {

/// As long as the object lives, its world learns of exit(), of SIGTERM and of SIGINT (Ctrl-C).
/// Several objects per process may exist. They share one exit handler and one signal handler, which
/// the first object installs; for SIGTERM it also calls the one that was there before. Construct
/// and destroy on the progress thread. Throws Error(system).
class ProcessEnd {
 public:
  struct Events {
    /// exit() was called, or main has returned. Runs on that thread, which continues afterwards.
    std::function<void(int status)> exits;
    /// The signal has arrived. Runs on the progress thread. Unless the program has a handler of its
    /// own, the process ends by the signal once every world has been told.
    std::function<void(int signal)> terminated;
  };

  /// `watch_signals`: if false, the signals are left alone. So is a signal that the program
  /// ignores, and a SIGINT that it handles.
  ProcessEnd(p2p::ProgressThread& progress, bool watch_signals, Events events);
  ~ProcessEnd();
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;

 private:
  class Wakeup;
  friend struct ExitHandler;

  p2p::ProgressThread& progress_;
  const Events events_;
  Wakeup* bell_ = nullptr;  ///< for the signal handler; null: the signal is left alone
};

}  // namespace weft::detail
