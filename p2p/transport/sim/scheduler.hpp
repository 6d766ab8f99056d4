// A simulation's time, and what happens in it next.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/mix64.hpp"
#include "p2p/transport/sim/random.hpp"

namespace weft::p2p::sim {

/// Events in the order of their times; those of one time in an order that the seed decides. Time
/// passes from event to event: what an event does takes none. One thread.
class Scheduler final : public ClockSource {
 public:
  using Time = Clock::time_point;
  using Action = std::function<void()>;

  explicit Scheduler(std::uint64_t seed, bool print = false) : random_(seed), print_(print) {}

  Time now() const noexcept override { return now_; }
  std::chrono::nanoseconds passed() const noexcept { return now_ - kStart; }
  Random& random() noexcept { return random_; }

  /// Not before now.
  void at(Time when, Action act) { push(when, std::move(act), nullptr); }
  /// Happens only if `*round` is still what it is now; otherwise it passes unnoticed, and takes no
  /// time. `round` must live as long as the scheduler.
  void at_if_still(Time when, const std::uint64_t* round, Action act) {
    push(when, std::move(act), round);
  }
  /// Runs the next event; false when there is none.
  bool step();
  std::uint64_t events() const noexcept { return events_; }

  /// Adds what has just happened to the trace.
  void note(std::string_view what, std::uint64_t a, std::uint64_t b, std::uint64_t c);
  /// Equal for two runs only if the same happened, at the same times, in the same order.
  std::uint64_t trace() const noexcept { return trace_; }

 private:
  struct Event {
    Time when;
    std::uint64_t order;
    std::uint64_t number;
    const std::uint64_t* round;
    std::uint64_t expected;
    Action act;

    bool operator<(const Event& other) const noexcept {  // the greatest is the next
      if (when != other.when) return when > other.when;
      if (order != other.order) return order > other.order;
      return number > other.number;
    }
  };
  void push(Time when, Action act, const std::uint64_t* round);

  // Far from zero, which stands for "never" in places.
  static constexpr Time kStart{std::chrono::hours(1)};
  Time now_ = kStart;
  Random random_;
  const bool print_;
  std::vector<Event> heap_;
  std::uint64_t next_number_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t trace_ = kFnv1a;
};

}  // namespace weft::p2p::sim
