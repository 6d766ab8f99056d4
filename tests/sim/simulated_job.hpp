// A whole job on one thread, in a time of its own, decided by a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "p2p/transport/sim/options.hpp"
#include "weft/deadline.hpp"
#include "weft/world.hpp"

namespace weft::tests {

using p2p::sim::Faults;
using p2p::sim::Plant;
using p2p::sim::SimOptions;

/// Everything that a fabric may do and that harms no healthy job.
inline constexpr Faults kHarmlessFaults{.delayed = 0.1,
                                        .reordered = 0.3,
                                        .torn = 0.5,
                                        .duplicated = 0.2,
                                        .full_queue = 0.1,
                                        .woken = 0.05,
                                        .paused = 0.01};

/// The outcome of a simulated job.
struct SimOutcome {
  std::uint64_t trace = 0;   ///< equal for equal runs only
  std::uint64_t events = 0;  ///< that happened
  std::chrono::nanoseconds passed{0};
  std::vector<int> killed;
  /// The ranks that ended with an exception: "rank 2: ...", the first to end first.
  std::vector<std::string> failures;
  /// "seed 7: rank 2: ..." of the first failure, or "seed 7: all is well".
  std::string text;
};

/// A job whose ranks take turns on the calling thread. Every wait of theirs passes in simulated
/// time, `Deadline::after` and `Clock::now` included. One run. Destroying it abandons what killed
/// ranks held. Thread-safety: one thread; several jobs may run on several.
class SimJob {
 public:
  using Body = std::function<void(World&)>;

  explicit SimJob(int size, SimOptions options = {}, const Config& config = Config());
  ~SimJob();
  SimJob(const SimJob&) = delete;
  SimJob& operator=(const SimJob&) = delete;

  /// Runs `body` as every rank; each then leaves, and waits for the others. Returns when all ranks
  /// have ended or died. A job that can't go on (nobody is due) or that goes on for too long is a
  /// failure, which names the ranks that had not ended.
  SimOutcome run(const Body& body);

  /// Within a body, for the rank that runs it: lets the others go on for a while.
  void sleep(const World& world, std::chrono::nanoseconds span);

  /// Within a body, for the rank that runs it: the rank dies. Does not return.
  void kill(const World& world);

  /// Within a body: breaks the connection between two ranks. Both live on.
  void disconnect(int a, int b);

  /// Whether a rank has not been killed yet.
  bool lives(int rank) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs a body as every rank of a simulated job; throws std::runtime_error, with the seed, if a
/// rank fails.
SimOutcome run_simulated(int size, const SimJob::Body& body, SimOptions options = {},
                         const Config& config = Config());

/// The configuration that simulated jobs start from: no log, short timeouts of their own time.
Config simulated_settings();

}  // namespace weft::tests
