#include "tests/sim/simulated_job.hpp"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "base/clock.hpp"
#include "p2p/transport/sim/network.hpp"
#include "p2p/transport/sim/scheduler.hpp"
#include "p2p/transport/sim/sim_fabric.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/world/world_state.hpp"

namespace weft::tests {
namespace {

namespace sim = p2p::sim;

/// Values that every rank puts, and a fence at which they take turns.
struct StatsSegmentTest {
  std::vector<std::vector<std::byte>> values;
  int arrived = 0;
};

class SimBootstrap final : public Bootstrap {
 public:
  SimBootstrap(sim::Network& network, StatsSegmentTest& stats, int rank)
      : network_(network), stats_(stats), rank_(rank) {}

  std::string_view name() const noexcept override { return "simulation"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return network_.size(); }
  int local_size() const noexcept override { return network_.size(); }
  int local_rank() const noexcept override { return rank_; }

  void put(std::span<const std::byte> value) override {
    stats_.values[static_cast<std::size_t>(rank_)].assign(value.begin(), value.end());
    if (++stats_.arrived < size()) return;
    for (int rank = 0; rank < size(); ++rank) network_.rank(rank).wake();
  }

  void fence(Deadline deadline) override {
    while (stats_.arrived < size()) {
      if (deadline.passed())
        throw Error(ErrorDetail{.code = Code::timeout,
                                .operation = "join",
                                .message = "a rank never arrived",
                                .rank = rank_});
      network_.rank(rank_).sleep(deadline.when());
    }
  }

  std::vector<std::byte> get(int rank) override {
    return stats_.values[static_cast<std::size_t>(rank)];
  }

 private:
  sim::Network& network_;
  StatsSegmentTest& stats_;
  const int rank_;
};

/// This thread's clock is the simulation's as long as this lives.
class OwnTime {
 public:
  explicit OwnTime(const ClockSource& source) : before_(set_clock_source(&source)) {}
  ~OwnTime() { set_clock_source(before_); }
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  const ClockSource* before_;
};

}  // namespace

struct SimJob::State {
  State(int size, const SimOptions& given, const Config& settings)
      : options(given),
        config(settings),
        scheduler(given.seed, given.print),
        network(size, options, scheduler),
        stats{.values = std::vector<std::vector<std::byte>>(static_cast<std::size_t>(size))} {}

  const SimOptions options;
  const Config config;
  const std::shared_ptr<p2p::SegmentMapper> mapper = std::make_shared<p2p::SegmentMapper>();
  sim::Scheduler scheduler;
  sim::Network network;
  StatsSegmentTest stats;
  SimOutcome outcome;

  World join(int rank) {
    return WorldAccess::make(config,
                             {.bootstrap = std::make_unique<SimBootstrap>(network, stats, rank),
                              .mapper = mapper,
                              .progress = &network.rank(rank),
                              .sleeper = &network.rank(rank),
                              .fabrics = sim::SimFabric::only(network)});
  }

  void live(int rank, const Body& body) {
    try {
      World world = join(rank);
      body(world);
      world.leave().or_throw();
    } catch (const std::exception& error) {
      outcome.failures.push_back(fmt::format("rank {}: {}", rank, error.what()));
    } catch (...) {
      outcome.failures.push_back(fmt::format("rank {}: an exception of an unknown type", rank));
    }
  }

  bool is_over(int rank) { return network.rank(rank).ended() || !network.rank(rank).alive(); }

  void stopped(const char* why) {
    std::string ranks;
    for (int rank = 0; rank < network.size(); ++rank)
      if (!is_over(rank)) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
    outcome.failures.push_back(fmt::format("{}; not ended: rank {}", why, ranks));
  }
};

SimJob::SimJob(int size, SimOptions options, const Config& config)
    : state_(std::make_unique<State>(size, options, config)) {}

SimJob::~SimJob() = default;

SimOutcome SimJob::run(const Body& body) {
  State& state = *state_;
  const OwnTime own_time(state.scheduler);
  const int size = state.network.size();
  for (int rank = 0; rank < size; ++rank)
    state.network.rank(rank).run_application([&state, &body, rank] { state.live(rank, body); });
  int first_going = 0;
  for (;;) {
    while (first_going < size && state.is_over(first_going)) ++first_going;
    if (first_going == size) break;
    if (!state.scheduler.step()) {
      state.stopped("nobody can go on");
      break;
    }
    if (state.scheduler.passed() > state.options.limit ||
        state.scheduler.events() > state.options.event_limit) {
      state.stopped("the job goes on for too long");
      break;
    }
  }
  SimOutcome& outcome = state.outcome;
  for (const std::string& defect : state.network.defects())
    outcome.failures.push_back("defect: " + defect);
  outcome.trace = state.scheduler.trace();
  outcome.events = state.scheduler.events();
  outcome.passed = state.scheduler.passed();
  for (int rank = 0; rank < size; ++rank)
    if (!state.network.rank(rank).alive()) outcome.killed.push_back(rank);
  outcome.text = fmt::format("seed {}: {}", state.options.seed,
                             outcome.failures.empty() ? "all is well" : outcome.failures.front());
  return outcome;
}

void SimJob::sleep(const World& world, std::chrono::nanoseconds span) {
  const Deadline end = Deadline::after(span);
  while (!end.passed()) state_->network.rank(world.rank()).sleep(end.when());
}

void SimJob::kill(const World& world) { state_->network.rank(world.rank()).kill(); }

void SimJob::disconnect(int a, int b) { state_->network.drop(a, b); }

bool SimJob::lives(int rank) const { return state_->network.rank(rank).alive(); }

SimOutcome run_simulated(int size, const SimJob::Body& body, SimOptions options,
                         const Config& config) {
  SimJob job(size, options, config);
  SimOutcome outcome = job.run(body);
  if (!outcome.failures.empty()) throw std::runtime_error(outcome.text);
  return outcome;
}

Config simulated_settings() {
  return Config()
      .with(Setting::log, "off")
      .with(Setting::timeout, "20s")
      .with(Setting::init_timeout, "20s");
}

}  // namespace weft::tests
