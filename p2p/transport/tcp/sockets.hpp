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
/// connections at once; it is not woken while a thread has polled within the last half millisecond,
/// or, where that goes on for long, the last two.
/// Any thread, but for what is said to be the progress thread's.
class Sockets final : public Poller {
 public:
  explicit Sockets(ProgressThread& progress);

  /// Progress thread. `in` and `out` may be the same; each is added only once.
  void add(int in, int out, Ready& who);
  /// Progress thread: no call to `who` follows once this has returned.
  void remove(int in, int out) noexcept;
  /// Any thread: the progress thread is to say when there is room, or not any more.
  void want_room(int in, bool wanted) noexcept;

  /// Whether a thread has polled lately: deferred records then go soon, when there is room.
  bool are_polled() const noexcept { return !armed_.load(std::memory_order_relaxed); }

  bool poll() noexcept override;
  void poll_once() noexcept override;
  void arm() noexcept override;
  /// Polls all until nothing comes; for a caller that waits where no other thread polls.
  void drain() noexcept;

 private:
  struct Watch {
    int in = -1;
    int out = -1;
    Ready* who = nullptr;
    bool wants_room = false;
  };
  /// Up to this number they are asked one by one, one system call each, and the kernel does not
  /// watch what they have while no thread sleeps on them: that would slow down each packet. More
  /// are asked for together, two calls for all.
  static constexpr std::size_t kFew = 2;

  bool are_few() const noexcept { return watches_.size() <= kFew; }
  void tell_kernel(const Watch& watch) noexcept;
  void tell_kernel_of_all() noexcept;
  bool poll_all() noexcept;
  bool ask_kernel() noexcept;
  /// The progress thread is not to be woken. Under armed_mutex_, as look_again_later().
  void disarm() noexcept;
  /// After a tick the progress thread looks whether a thread still polls.
  void look_again_later() noexcept;
  void woken() noexcept;

  ProgressThread& progress_;
  os::Fd epoll_;
  std::mutex mutex_;  ///< held during calls to `who`
  std::mutex armed_mutex_;
  std::vector<Watch> watches_;  ///< read under either lock, changed under both
  std::size_t last_ = 0;        ///< who had something the last time is asked first
  unsigned looks_ = 0;
  std::atomic<bool> armed_{false};   ///< the progress thread sleeps on them
  std::atomic<bool> polled_{false};  ///< since the last tick
  Timer tick_;                       ///< started and stopped under armed_mutex_
  std::chrono::nanoseconds period_;  ///< of the tick; under armed_mutex_
};

}  // namespace weft::p2p::tcp
