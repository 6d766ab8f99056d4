// The connections for data of a rank, and who looks at them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::p2p::tcp {

/// Told that a connection has bytes, or room. Called with the lock of all of them held,
/// by any thread.
class Ready {
 public:
  virtual ~Ready() = default;
  /// Takes a bounded amount. Whether there was any.
  virtual bool receive() noexcept = 0;
  /// Whether anything could go.
  virtual bool flush() noexcept = 0;
  /// Whether something waits for room.
  virtual bool waits_for_room() const noexcept = 0;
};

/// The thread that waits receives by itself. Otherwise the progress thread sleeps on all
/// connections at once; it is not woken while somebody has looked within the last half millisecond,
/// or, where that goes on for long, the last two.
/// Any thread, but for what is said to be the progress thread's.
class Sockets final : public Poller {
 public:
  explicit Sockets(ProgressThread& progress);

  /// Progress thread. `in` and `out` may be the same; each is somebody's only once.
  void add(int in, int out, Ready& who);
  /// Progress thread: nobody is told any more once this has returned.
  void remove(int in, int out) noexcept;
  /// Any thread: the progress thread is to say when there is room, or not any more.
  void want_room(int in, bool wanted) noexcept;

  /// Whether somebody has looked lately: what is put off goes when there is room, soon.
  bool are_polled() const noexcept { return !armed_.load(std::memory_order_relaxed); }

  bool poll() noexcept override;
  void poll_once() noexcept override;
  void arm() noexcept override;
  /// Looks at all, until nothing comes; for who waits where nobody else looks.
  void drain() noexcept;

 private:
  struct Watch {
    int in = -1;
    int out = -1;
    Ready* who = nullptr;
    bool wants_room = false;
  };
  /// Up to so many are asked one by one, one system call each, and the kernel is not to notice what
  /// they have while nobody sleeps on them: that would slow down each packet. More are asked for
  /// together, two calls for all.
  static constexpr std::size_t kFew = 2;

  bool are_few() const noexcept { return watches_.size() <= kFew; }
  void tell_kernel(const Watch& watch) noexcept;
  void tell_kernel_of_all() noexcept;
  bool poll_all() noexcept;
  bool ask_kernel() noexcept;
  void woken() noexcept;

  ProgressThread& progress_;
  os::Fd epoll_;
  std::mutex mutex_;  ///< held while somebody is told
  std::mutex armed_mutex_;
  std::vector<Watch> watches_;  ///< read under either lock, changed under both
  std::size_t last_ = 0;        ///< who had something the last time is asked first
  unsigned looks_ = 0;
  std::atomic<bool> armed_{false};   ///< the progress thread sleeps on them
  std::atomic<bool> polled_{false};  ///< since the last tick
  Timer tick_;
  std::chrono::nanoseconds period_;  ///< of the tick, the progress thread's
};

}  // namespace weft::p2p::tcp
