// How a world learns that its process is about to end.
#pragma once

#include <functional>

#include "p2p/progress/progress_thread.hpp"

namespace weft::detail {

/// While one lives, its world hears of exit() and of SIGTERM. Any number in a process: what they
/// share (an exit handler; the signal's handler, which calls the one that was there before) is set
/// up by the first. Made and destroyed on the progress thread. Throws Error(system).
class ProcessEnd {
 public:
  struct Events {
    /// exit() was called, or main has returned; on the thread that did so, which goes on after it.
    std::function<void(int status)> exits;
    /// SIGTERM came; on the progress thread. Unless the program has a handler of its own, the
    /// process ends by the signal once every world has heard of it.
    std::function<void()> terminated;
  };

  /// `watch_sigterm`: else the signal is left alone; as it is where the program ignores it.
  ProcessEnd(p2p::ProgressThread& progress, bool watch_sigterm, Events events);
  ~ProcessEnd();
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;

 private:
  class Wakeup;
  friend struct ExitHandler;

  p2p::ProgressThread& progress_;
  const Events events_;
  Wakeup* bell_ = nullptr;  ///< the signal's; none: it is left alone
};

}  // namespace weft::detail
