#include "p2p/transport/sim/sim_rank.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

namespace weft::p2p::sim {
namespace {

constexpr std::chrono::microseconds kTurnSoon{500};  // as the progress thread's timer

std::uint64_t number(int rank) noexcept { return static_cast<std::uint64_t>(rank); }

}  // namespace

SimRank::SimRank(int rank, Scheduler& scheduler, const Faults& faults, std::uint64_t steps_to_live,
                 std::function<void()> on_death)
    : rank_(rank),
      scheduler_(scheduler),
      faults_(faults),
      steps_to_live_(steps_to_live),
      on_death_(std::move(on_death)) {}

void SimRank::run_application(std::function<void()> body) {
  fiber_ = std::make_unique<Fiber>(std::move(body));
  waiting_ = true;
  wake();
}

void SimRank::start() {
  stopped_ = false;
  if (!tasks_.empty()) turn_next();
}

void SimRank::stop() noexcept {
  stopped_ = true;
  const auto dropped = std::exchange(tasks_, {});
}

void SimRank::enqueue(std::function<void()> task) {
  tasks_.push_back(std::move(task));
  turn_next();
}

void SimRank::turn_next() {
  if (std::exchange(turn_due_, true)) return;
  scheduler_.at(scheduler_.now() + scheduler_.random().between({}, faults_.typical),
                [this] { turn(); });
}

void SimRank::run(const std::function<void()>& task) {
  bool done = false;
  std::exception_ptr thrown;
  post([&] {
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
    done = true;
    wake();
  });
  while (!done) park_until(Clock::time_point::max());
  if (thrown) std::rethrow_exception(thrown);
}

void SimRank::turn_soon() noexcept {
  if (std::exchange(poll_due_, true)) return;
  scheduler_.at(scheduler_.now() + kTurnSoon, [this] {
    poll_due_ = false;
    turn();
  });
}

void SimRank::turn() {
  if (is_paused(nullptr, [this] { turn(); })) return;
  turn_due_ = false;
  if (!alive_ || stopped_) return;
  scheduler_.note("turn", number(rank_), tasks_.size(), 0);
  for (const auto& task : std::exchange(tasks_, {}))
    if (alive_) task();
  if (alive_ && !stopped_ && tasks_.empty() && poll_) poll_();
}

void SimRank::sleep(Clock::time_point until) noexcept {
  count_step();
  Random& random = scheduler_.random();
  if (random.chance(faults_.woken)) until = std::min(until, scheduler_.now() + faults_.typical);
  park_until(until);
}

void SimRank::park_until(Clock::time_point until) {
  if (!in_fiber_) {
    // On the scheduler's stack a switch to another would destroy both.
    std::fputs("weft: a task of a simulated rank waits, which no task may\n", stderr);
    std::abort();
  }
  waiting_ = true;
  if (until != Clock::time_point::max())
    scheduler_.at_if_still(until, &round_, [this] { resume(); });
  in_fiber_ = false;
  fiber_->park();
}

void SimRank::wake() noexcept {
  if (!waiting_ || wake_due_) return;
  wake_due_ = true;
  scheduler_.at_if_still(scheduler_.now() + scheduler_.random().between({}, faults_.typical),
                         &round_, [this] { resume(); });
}

void SimRank::resume() {
  if (is_paused(&round_, [this] { resume(); })) return;
  if (!alive_) return;
  ++round_;
  waiting_ = wake_due_ = false;
  scheduler_.note("resume", number(rank_), 0, 0);
  in_fiber_ = true;
  fiber_->resume();
  in_fiber_ = false;
}

bool SimRank::is_paused(const std::uint64_t* round, std::function<void()> turn) {
  Random& random = scheduler_.random();
  const auto now = scheduler_.now();
  if (paused_until_ <= now && random.chance(faults_.paused)) {
    paused_until_ = now + random.between(faults_.typical, faults_.longest_pause);
    scheduler_.note("pause", number(rank_), 0, 0);
  }
  if (paused_until_ <= now) return false;
  scheduler_.at_if_still(paused_until_, round, std::move(turn));
  return true;
}

void SimRank::ring() noexcept {
  wake();
  if (local_ != nullptr && local_->bell().armed.exchange(0) != 0) turn_next();
}

void SimRank::count_step() {
  if (!alive_ || steps_to_live_ == 0 || --steps_to_live_ != 0) return;
  die();
  // Within a task the rest still runs, but nobody sees anything of it any more.
  if (in_fiber_) fiber_->park();
}

void SimRank::die() {
  alive_ = false;
  scheduler_.note("death", number(rank_), 0, 0);
  on_death_();
}

}  // namespace weft::p2p::sim
