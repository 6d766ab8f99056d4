// The wait of a thread: poll, then yield, then sleep on the rank's doorbell.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/os/asymmetric_barrier.hpp"
#include "base/stats/waits.hpp"
#include "p2p/progress/doorbell.hpp"
#include "p2p/progress/progress_registry.hpp"
#include "weft/deadline.hpp"

namespace weft::p2p {

/// Length of each stage of a wait. Where ranks outnumber the processors they share, `spin` is 0:
/// polling would only keep the awaited rank from running.
struct WaitPolicy {
  static constexpr std::chrono::microseconds kSpin{200};
  static constexpr std::chrono::microseconds kYielding{800};

  std::chrono::nanoseconds spin{0};
  /// A thread that polls sockets goes on for this long after `spin`. The thread that moves the
  /// awaited data may be delayed by the kernel's own work for the connection, and sleeping and
  /// waking costs more than that delay. It yields between its polls from the start: ranks of other
  /// hosts or containers may share its processor, of which it can't know.
  std::chrono::nanoseconds yielding{0};
  int yields = 8;
  /// The sleeper runs os::global_barrier() on behalf of the ringers of all processes, which then
  /// need no fence of their own. Pays off where ranks seldom sleep; where they share processors and
  /// sleep often, a fence in each ringer is cheaper.
  bool barrier_before_sleep = false;

  /// While some source does not ring the doorbell, a sleeper wakes by itself to poll: first after
  /// kFirstLook, then with the pause doubled each time up to kLongestSleep.
  static constexpr std::chrono::microseconds kFirstLook{200};
  static constexpr std::chrono::microseconds kLongestSleep{1000};
};

enum class WaitEnd : std::uint8_t { ready, broken, timeout };

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Replaces sleeping on the doorbell where all ranks of a job take turns on one thread: the
/// scheduler of the turns implements it.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  /// Returns when something may have happened for this rank, or at `until`. May return spuriously.
  virtual void sleep(Clock::time_point until) noexcept = 0;
  /// Called when something has happened for this rank.
  virtual void wake() noexcept = 0;
};

/// A queue that must be polled to notice arrivals. Any thread.
class Poller {
 public:
  virtual ~Poller() = default;
  /// Polls on behalf of a waiting thread, unless another thread is polling. True if anything
  /// arrived or can now be sent.
  virtual bool poll() noexcept = 0;
  /// Polls on behalf of a thread that does not go on waiting.
  virtual void poll_once() noexcept = 0;
  /// Polls, or waits for the thread that does: what had come before the call shows after it. The
  /// caller holds no lock.
  virtual void catch_up() noexcept { poll(); }
  /// Called before the caller sleeps: arrivals ring the doorbell from now on.
  virtual void arm() noexcept = 0;
};

/// For a wait with nothing to show in the statistics.
struct AboutNothing {
  stats::WaitAbout operator()() const noexcept { return {}; }
};

/// Waits until `ready()`, or until `broken()` says that readiness can no longer come, or until the
/// deadline. Checks `ready` once more after `broken`, so data that came before the break is not
/// lost. Both must be cheap, and `ready` must have acquire semantics. A waiting thread progresses
/// registered operations, so it must hold no lock. Any number of threads may wait.
class Waiter {
 public:
  Waiter(Doorbell& bell, WaitPolicy policy, std::chrono::nanoseconds default_timeout,
         Sleeper* sleeper = nullptr) noexcept
      : bell_(bell),
        policy_(policy),
        default_timeout_(default_timeout),
        sleeper_(sleeper),
        progress_registry_(bell) {}

  std::chrono::nanoseconds default_timeout() const noexcept { return default_timeout_; }
  /// Call before any other thread waits.
  void set_policy(WaitPolicy policy) noexcept { policy_ = policy; }
  const WaitPolicy& policy() const noexcept { return policy_; }
  /// Adds a fabric whose arrivals show only when polled; at most 2. `patient`: the kernel's own
  /// threads deliver this fabric's data and may be late, so waits poll for `policy().yielding`
  /// before they sleep, and yield meanwhile. Call before any other thread waits.
  void add_poller(Poller& poller, bool patient = false) noexcept {
    (poller_ == nullptr ? poller_ : second_poller_) = &poller;
    patient_ = patient_ || patient;
  }
  /// Waits look at the clock whenever `slow_polls` has changed, in place of once in many polls.
  /// Call before any other thread waits.
  void watch_slow_polls(const std::atomic<std::uint32_t>& slow_polls) noexcept {
    slow_polls_ = &slow_polls;
  }
  /// Operations that every wait progresses.
  ProgressRegistry& progress_registry() noexcept { return progress_registry_; }
  /// Sets where sleeping waits are shown in the statistics. Call before any other thread waits.
  void show_on(stats::Waits* waits) noexcept { waits_ = waits; }
  /// Polls all fabrics. True if anything arrived or can now be sent.
  bool poll() const noexcept {
    if (poller_ == nullptr) [[likely]]
      return false;
    const bool moved = poller_->poll();
    if (second_poller_ == nullptr) [[likely]]
      return moved;
    return second_poller_->poll() || moved;
  }
  /// Polls all fabrics, for a caller that does not wait.
  void poll_once() const noexcept {
    if (poller_ != nullptr) [[unlikely]]
      both([](Poller& poller) { poller.poll_once(); });
  }
  /// For a caller that says next that nothing has come: see Poller::catch_up().
  void catch_up() const noexcept {
    if (poller_ != nullptr) [[unlikely]]
      both([](Poller& poller) { poller.catch_up(); });
  }
  /// Like poll_once(), for application threads: also progresses registered operations as far as
  /// that needs no wait.
  void poll_and_progress() const noexcept {
    poll_once();
    progress_registry_.progress(false);
  }
  /// Waits without relying on a wake-up: for use once the rank's progress has stopped.
  template <typename Ready>
  bool wait_alone(const Ready& ready, Clock::duration longest) const noexcept {
    const auto until = Clock::now() + longest;
    while (!ready()) {
      if (Clock::now() >= until) return false;
      if (sleeper_ != nullptr)
        sleeper_->sleep(until);
      else
        sched_yield();
      poll_once();
    }
    return true;
  }
  /// Counts a source of this rank that does not ring its doorbell: +1 adds one, -1 removes one. Any
  /// thread. Ring the doorbell after adding the first.
  void count_silent(int change) noexcept { silent_.fetch_add(change, std::memory_order_seq_cst); }
  bool has_silent() const noexcept { return silent_.load(std::memory_order_seq_cst) != 0; }
  /// Null where ranks have threads of their own, which sleep on the doorbell.
  Sleeper* sleeper() const noexcept { return sleeper_; }

  /// Polls without a pause or a look at the clock, up to polls_in_turn() times: for a wait by the
  /// default deadline, of which these few microseconds are no part yet. Returns false at once where
  /// no fabric is polled, and where `spin` is 0, because polling would keep the awaited rank from
  /// running.
  template <typename Ready>
  bool comes_soon(const Ready& ready) const noexcept {
    // By shared memory a poll is one load. The earlier the first, the more often it takes the line
    // from the writer that is about to store there.
    if (policy_.spin.count() == 0 || poller_ == nullptr) return false;
    const std::uint32_t slow_before = slow_polls();
    for (int i = 0; i < polls_in_turn() && slow_polls() == slow_before; ++i) {
      poll();
      progress_registry_.progress(true);
      if (ready()) return true;
    }
    return false;
  }
  /// The same kHardPolls times, and at `until` at the latest: most awaited data comes within a few
  /// hundred polls. Between those of sockets the thread yields.
  template <typename Ready>
  bool comes_at_once(const Ready& ready, Clock::time_point until) const noexcept {
    if (policy_.spin.count() == 0) return false;
    const std::uint32_t slow_before = slow_polls();
    for (int i = 0; i < kHardPolls; ++i) {
      if (patient_ && i != 0 && i % kPollsPerYield == 0) sched_yield();
      poll();
      progress_registry_.progress(true);
      if (ready()) return true;
      const bool is_due = i % kPollsPerClock == 0 || slow_polls() != slow_before;
      if (is_due && Clock::now() >= until) return false;
    }
    return false;
  }
  /// Calls `about()`, which says what is awaited and from which rank, only when the thread goes to
  /// sleep.
  template <typename Ready, typename Broken, typename About = AboutNothing>
  WaitEnd wait(const Ready& ready, const Broken& broken, Deadline deadline,
               const About& about = {}) const noexcept {
    if (ready()) return WaitEnd::ready;
    if (!deadline.is_default() && sleeper_ == nullptr && deadline.passed())
      return check_once(ready, broken);
    if (deadline.is_default() && comes_soon(ready)) return WaitEnd::ready;
    const auto until = deadline.resolve(default_timeout_).when();
    if (comes_at_once(ready, until)) return WaitEnd::ready;
    return wait_on(ready, broken, until, about);
  }

 private:
  template <typename Act>
  void both(const Act& act) const noexcept {
    act(*poller_);
    if (second_poller_ != nullptr) [[unlikely]]
      act(*second_poller_);
  }

  std::uint32_t slow_polls() const noexcept { return slow_polls_->load(std::memory_order_relaxed); }

  static constexpr int kHardPolls = 512;
  static constexpr int kPollsPerClock = 64;
  /// Polls of sockets are system calls: after a few of them the processor is offered to others.
  static constexpr int kPollsPerYield = 16;

  int polls_in_turn() const noexcept { return patient_ ? kPollsPerYield : kPollsPerClock; }

  /// Shows one wait in the statistics, from its first sleep on; waits that never sleep stay out.
  class Shown {
   public:
    Shown(stats::Waits* waits, Clock::time_point since) noexcept : waits_(waits), since_(since) {}
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;
    ~Shown() {
      if (slept_) waits_->end(entry_, about_, since_);
    }
    template <typename About>
    void sleeps(const About& about, Clock::time_point until) noexcept {
      if (waits_ == nullptr) return;
      if (slept_) {
        // Some of those that it awaits may have come meanwhile.
        if (entry_ != nullptr && about_.details != nullptr) stats::Waits::renew(*entry_, about());
        return;
      }
      slept_ = true;
      about_ = about();
      entry_ = waits_->show(about_, since_, until);
    }

   private:
    stats::Waits* const waits_;
    const Clock::time_point since_;
    bool slept_ = false;
    stats::WaitAbout about_;
    stats::WaitEntry* entry_ = nullptr;
  };

  template <typename Ready, typename Broken, typename About>
  WaitEnd wait_on(const Ready& ready, const Broken& broken, Clock::time_point until,
                  const About& about) const noexcept {
    if (sleeper_ != nullptr) return wait_by_turns(ready, broken, until);
    Shown shown(waits_, Clock::now());
    for (;;) {
      if (const auto end = wait_awake(ready, broken, until)) return *end;
      if (const auto end = wait_asleep(ready, broken, until, about, shown)) return *end;
    }
  }

  /// A wait whose deadline has passed before it begins: polls once.
  template <typename Ready, typename Broken>
  WaitEnd check_once(const Ready& ready, const Broken& broken) const noexcept {
    (void)poll();
    progress_registry_.progress(true);
    if (ready()) return WaitEnd::ready;
    if (broken()) return ready() ? WaitEnd::ready : WaitEnd::broken;
    return WaitEnd::timeout;
  }

  /// Polls and yields. Returns nullopt when nothing arrives for `spin` plus `yielding`. Any arrival
  /// restarts that time, since it may be a part of what is awaited.
  template <typename Ready, typename Broken>
  std::optional<WaitEnd> wait_awake(const Ready& ready, const Broken& broken,
                                    Clock::time_point until) const noexcept {
    auto now = policy_.spin.count() > 0 ? Clock::now() : until;
    const auto yielding = patient_ ? policy_.yielding : std::chrono::nanoseconds{0};
    bool is_first = true;
    for (auto end = std::min(until, now + policy_.spin + yielding); now < end; now = Clock::now()) {
      bool moved = false;
      if (patient_ && !std::exchange(is_first, false)) sched_yield();
      const std::uint32_t slow_before = slow_polls();
      for (int i = 0; i < polls_in_turn() && slow_polls() == slow_before; ++i) {
        moved = poll() || moved;
        progress_registry_.progress(true);
        if (ready()) return WaitEnd::ready;
        relax();
      }
      if (broken()) return ready() ? WaitEnd::ready : WaitEnd::broken;
      if (!moved) continue;
      end = std::min(until, now + policy_.spin + yielding);
    }
    for (int i = 0; i < policy_.yields && (i == 0 || Clock::now() < until); ++i) {
      (void)poll();
      progress_registry_.progress(true);
      if (ready()) return WaitEnd::ready;
      sched_yield();
    }
    return {};
  }

  /// Sleeps. Returns nullopt when the doorbell has rung.
  template <typename Ready, typename Broken, typename About>
  std::optional<WaitEnd> wait_asleep(const Ready& ready, const Broken& broken,
                                     Clock::time_point until, const About& about,
                                     Shown& shown) const noexcept {
    for (;;) {
      bell_.sleepers.fetch_add(1, std::memory_order_seq_cst);
      if (policy_.barrier_before_sleep) os::global_barrier();
      if (poller_ != nullptr) both([](Poller& poller) { poller.arm(); });
      const std::uint32_t heard = bell_.word.load(std::memory_order_seq_cst);
      const bool silent = is_silent();
      const bool is_ready = ready();
      const bool is_broken = !is_ready && broken();
      const bool is_late = !is_ready && !is_broken && Clock::now() >= until;
      if (!is_ready && !is_broken && !is_late) {
        shown.sleeps(about, until);
        sleep(heard, silent || has_silent(), ready, until);  // ready() may begin silent work
      }
      bell_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
      if (is_ready || ready()) return WaitEnd::ready;
      if (is_broken) return WaitEnd::broken;
      if (is_late) return WaitEnd::timeout;
      if (bell_.word.load(std::memory_order_seq_cst) != heard) return {};
    }
  }

  /// Progresses registered operations. True if something may happen for this rank without a ring.
  bool is_silent() const noexcept {
    const ProgressResult left = progress_registry_.progress(true);
    return left == ProgressResult::needs_poll || has_silent();
  }

  /// Returns when the doorbell rings, at `until`, or sooner; polls in between if `silent`.
  template <typename Ready>
  void sleep(std::uint32_t heard, bool silent, const Ready& ready,
             Clock::time_point until) const noexcept {
    if (!silent) {
      os::futex_wait(bell_.word, heard, until);
      return;
    }
    std::chrono::nanoseconds pause = WaitPolicy::kFirstLook;
    do {
      os::futex_wait(bell_.word, heard, std::min(until, Clock::now() + pause));
      pause = std::min<std::chrono::nanoseconds>(2 * pause, WaitPolicy::kLongestSleep);
    } while (bell_.word.load(std::memory_order_seq_cst) == heard && is_silent() && !ready() &&
             Clock::now() < until);
  }

  template <typename Ready, typename Broken>
  [[gnu::noinline, gnu::cold]] WaitEnd wait_by_turns(const Ready& ready, const Broken& broken,
                                                     Clock::time_point until) const noexcept {
    for (;;) {
      const bool soon = is_silent();
      if (ready()) return WaitEnd::ready;
      if (broken()) return ready() ? WaitEnd::ready : WaitEnd::broken;
      if (Clock::now() >= until) return WaitEnd::timeout;
      sleeper_->sleep(soon || has_silent() ? std::min(until, Clock::now() + WaitPolicy::kFirstLook)
                                           : until);
    }
  }

  Doorbell& bell_;
  WaitPolicy policy_;
  const std::chrono::nanoseconds default_timeout_;
  Sleeper* const sleeper_;
  Poller* poller_ = nullptr;
  Poller* second_poller_ = nullptr;
  bool patient_ = false;
  const std::atomic<std::uint32_t> no_slow_polls_{0};
  const std::atomic<std::uint32_t>* slow_polls_ = &no_slow_polls_;
  stats::Waits* waits_ = nullptr;
  std::atomic<int> silent_{0};  ///< sources that don't ring
  mutable ProgressRegistry progress_registry_;
};

}  // namespace weft::p2p
