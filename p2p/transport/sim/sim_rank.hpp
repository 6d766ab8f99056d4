// One rank of a simulation: its application's stack, and what stands for its progress thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "p2p/progress/progress.hpp"
#include "p2p/progress/waiter.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/sim/fiber.hpp"
#include "p2p/transport/sim/options.hpp"
#include "p2p/transport/sim/scheduler.hpp"

namespace weft::p2p::sim {

/// Takes two kinds of turns: its application's (a fiber), and its progress's, which runs the tasks
/// and then the look before the sleep. One thread, that of the simulation.
class SimRank final : public Progress, public Sleeper {
 public:
  /// `steps_to_live`: it dies with this step; 0: it does not. `on_death` is told.
  SimRank(int rank, Scheduler& scheduler, const Faults& faults, std::uint64_t steps_to_live,
          std::function<void()> on_death);

  int rank() const noexcept { return rank_; }
  bool alive() const noexcept { return alive_; }
  bool ended() const noexcept { return fiber_ != nullptr && fiber_->ended(); }
  /// Begins the application's first turn at once.
  void run_application(std::function<void()> body);

  // Progress.
  void start() override;
  void stop() noexcept override;
  void run(const std::function<void()>& task) override;
  void turn_soon() noexcept override;
  void before_sleep(std::function<void()> look) override { poll_ = std::move(look); }

  // Sleeper.
  void sleep(Clock::time_point until) noexcept override;
  void wake() noexcept override;

  /// Rings the rank's bell: a sleeper wakes, and the progress if it has armed the bell.
  void ring() noexcept;
  /// The world's part of the rank, while there is one.
  void set_local(LocalRank* local) noexcept { local_ = local; }
  LocalRank* local() const noexcept { return local_; }

  /// The application, or its progress, does something that others can see. A rank whose time has
  /// come dies here: then its application's turn never ends.
  void count_step();
  /// Within the application's turn, which then never ends: the rank dies.
  void kill() {
    steps_to_live_ = 1;
    count_step();
  }

 protected:
  void enqueue(std::function<void()> task) override;
  void on_lost_task() noexcept override {}  // simulations do not run out of memory

 private:
  void park_until(Clock::time_point until);
  void resume();
  void turn();
  void turn_next();
  void die();
  /// Whether the rank is stopped just now; then `turn` comes once it goes on.
  bool is_paused(const std::uint64_t* round, std::function<void()> turn);

  const int rank_;
  Scheduler& scheduler_;
  const Faults& faults_;
  std::uint64_t steps_to_live_;
  std::function<void()> on_death_;
  LocalRank* local_ = nullptr;
  bool alive_ = true;
  Clock::time_point paused_until_{};

  std::unique_ptr<Fiber> fiber_;
  bool in_fiber_ = false;
  bool waiting_ = false;
  bool wake_due_ = false;
  std::uint64_t round_ = 0;  ///< of the application's turns

  bool stopped_ = true;
  bool turn_due_ = false;
  bool poll_due_ = false;
  std::vector<std::function<void()>> tasks_;
  std::function<void()> poll_;
};

}  // namespace weft::p2p::sim
