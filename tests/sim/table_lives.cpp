#include "tests/sim/table_lives.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "p2p/transport/sim/random.hpp"
#include "tests/pattern.hpp"
#include "tests/sim/push_code.hpp"
#include "tests/sim/simulated_job.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;
using p2p::sim::Random;
using pslib::Consistency;
using std::chrono::microseconds;

constexpr std::size_t kMostJobs = 3;
constexpr std::uint64_t kMostSteps = kMostPushes / kMostJobs;
constexpr std::size_t kCells = 9;       // of the first tensor
constexpr std::size_t kSmallCells = 2;  // of the second

Consistency any_consistency(Random& random, std::size_t workers) {
  switch (random.below(5)) {
    case 0:
      return Consistency::bsp();
    case 1:
      return Consistency::async();
    case 2:
      return Consistency::first(
          1 + static_cast<std::uint32_t>(random.below(workers)),
          random.chance(0.5) ? Consistency::Late::dropped : Consistency::Late::folded);
    default:
      return Consistency::ssp(static_cast<std::uint32_t>(random.below(4)));
  }
}

/// A folder of checkpoints.
class SavedTables {
 public:
  std::string path() const { return folder_.path().string(); }

  /// The newest version with a manifest; 0: none.
  std::uint64_t newest() const {
    std::uint64_t newest = 0;
    const fs::path model = folder_.path() / "model";
    if (!fs::exists(model)) return newest;
    for (const auto& version : fs::directory_iterator(model))
      if (fs::exists(version.path() / "manifest.json") && !version.path().has_extension())
        newest = std::max<std::uint64_t>(newest, std::stoull(version.path().filename().string()));
    return newest;
  }

 private:
  TempFolder folder_;
};

std::ptrdiff_t threads() {
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

/// One job of the table. Ranks below `servers` serve, or all where there are none of their own.
struct Job {
  std::size_t servers = 0;
  std::size_t replicas = 1;
  std::uint64_t saved_every = 0;
  SimOptions simulation{};
};

class Lives {
 public:
  Lives(std::uint64_t seed, Plant plant, Lot lot)
      : random_(mix(seed)),
        plant_(plant),
        lot_(lot),
        workers_(2 + random_.below(3)),
        consistency_(any_consistency(random_, workers_)),
        code_(consistency_, workers_),
        pushed_(workers_, 0) {
    lives_.history = {consistency_, workers_, {}};
  }

  TableLives run() {
    const std::size_t jobs = lot_ == Lot::any ? 1 + random_.below(kMostJobs) : 1;
    for (std::size_t i = 1; i <= jobs && lives_.failures.empty(); ++i) run(any_job(i == jobs));
    return std::move(lives_);
  }

 private:
  // No server of a replicated table that is saved dies: in reality its unfinished writes would
  // stop, but here a thread finishes them while its successor writes the same file.
  Job any_job(bool is_last) {
    const bool is_bsp = consistency_.kind == Consistency::Kind::bsp;
    Job job;
    job.servers = is_bsp && random_.chance(0.3) ? 0 : 1 + random_.below(4);
    if (job.servers > 1 && random_.chance(0.8)) job.replicas = 2 + random_.below(job.servers - 1);
    if (consistency_.kind == Consistency::Kind::k_of_n && job.replicas == 1) job.servers = 1;
    if (!is_last) job.saved_every = 1 + random_.below(6);
    job.simulation.seed = random_.next();
    job.simulation.plant = plant_;
    Faults& faults = job.simulation.faults;
    if (random_.chance(0.5)) faults = kHarmlessFaults;
    faults.delayed = 0.05;
    faults.woken = 0.02;
    faults.paused = random_.chance(0.5) ? 0.01 : 0.001;
    if (plant_ != Plant::none) {
      faults.torn = 1;
      job.simulation.event_limit = 50'000;  // some would never end
    }
    faults.kills = static_cast<int>(random_.below(3));
    faults.kill_after = 200;
    faults.kill_within = 100 + random_.below(500);
    if (lot_ == Lot::replicas_die) {
      job.servers = 2 + random_.below(3);
      job.replicas = 2 + random_.below(job.servers - 1);
      faults.kills = 1 + static_cast<int>(random_.below(4));
      return job;
    }
    // Now and then only workers die.
    if (random_.chance(0.4) || (job.saved_every > 0 && job.replicas > 1))
      faults.spared = static_cast<int>(job.servers);
    return job;
  }

  void run(const Job& job) {
    job_ = job;
    paces_ = random_.next();
    steps_ = 4 + random_.below(kMostSteps - 3);
    checkpoint_ = saved_.newest();
    if (checkpoint_ > 0) ++lives_.restarts;
    has_begun_ = false;
    has_parameters_ = is_whole_ = all_began_ = false;
    made_ = 0;
    is_dead_.assign(workers_, false);
    has_ended_.assign(workers_, false);
    const std::ptrdiff_t before = threads();
    SimJob simulated(static_cast<int>(workers_ + job.servers), job.simulation,
                     simulated_settings());
    simulated_ = &simulated;
    const SimOutcome outcome = simulated.run([this](World& world) { live(world); });
    note_deaths();
    // A server that was killed leaves a thread that writes.
    while (threads() > before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    check_end(outcome);
  }

  void live(World& world) {
    pslib::Options deployment{.replicas = static_cast<int>(job_.replicas), .split_bytes = 256};
    for (int rank = 0; rank < world.size() && job_.servers > 0; ++rank)
      (rank < first_worker() ? deployment.servers : deployment.workers).push_back(rank);
    pslib::ParameterServer server(world, deployment);
    pslib::TableOptions options(pslib::Optimizer::sgd(1.0F));
    options.consistency = consistency_;
    // The folder stays open where a rank is killed.
    if (lot_ == Lot::any) options.checkpoint = {.folder = saved_.path(), .every = job_.saved_every};
    pslib::Table table = server.table("model", tensors(), options);
    ++made_;
    look_at_begin(world.size());
    if (server.works()) {
      try {
        work(world, table);
      } catch (...) {
        // It closes its table, and the others wait for it no longer.
        const int worker = world.rank() - first_worker();
        note({.kind = TableEvent::Kind::closed, .worker = static_cast<std::size_t>(worker)});
        throw;
      }
    } else {
      pslib::Table* const tables[] = {&table};
      server.serve(tables).or_throw();
    }
    // Where shards lie at workers the others may still read this one's.
    if (job_.servers == 0) world.leave().or_throw();
  }

  void work(World& world, pslib::Table& table) {
    const auto worker = static_cast<std::size_t>(world.rank() - first_worker());
    Random pace(mix(paces_ + worker));
    const std::uint64_t steps =
        consistency_.kind == Consistency::Kind::bsp ? steps_ : 4 + pace.below(steps_ - 3);
    const auto longest = 20 + pace.below(400);
    if (!std::exchange(has_begun_, true)) begin(table);
    table.initialize().or_throw();
    has_parameters_ = true;
    look_at_begin(world.size());
    pulled(worker, table);
    for (std::uint64_t step = 0; step < steps; ++step) {
      rest(world, pace, longest);
      for (const auto& spec : table.specs())
        code_.write(table.gradient(spec.name).as<float>(), worker, pushed_[worker] + 1);
      ++pushed_[worker];
      note({.kind = TableEvent::Kind::pushed, .worker = worker});
      table.push().or_throw();
      if (pace.chance(0.3)) rest(world, pace, longest);
      table.pull().or_throw();
      pulled(worker, table);
    }
    has_ended_[worker] = true;
    note({.kind = TableEvent::Kind::closed, .worker = worker});
  }

  // Stops the rank for a long time at times.
  void rest(const World& world, Random& pace, std::uint64_t longest) {
    simulated_->sleep(world, microseconds(pace.chance(0.05) ? 8000 : pace.below(longest)));
  }

  void begin(const pslib::Table& table) {
    TableEvent event{.kind = TableEvent::Kind::began, .version = checkpoint_};
    event.shards.resize(kCells + kSmallCells);
    for (const pslib::ShardPiece& piece : table.pieces())
      for (std::size_t i = 0; i < static_cast<std::size_t>(piece.count) / code_.cell(); ++i)
        event.shards[(piece.tensor == 0 ? 0 : kCells) +
                     static_cast<std::size_t>(piece.first) / code_.cell() + i] =
            static_cast<std::size_t>(piece.server);
    lives_.history.events.push_back(std::move(event));
  }

  void pulled(std::size_t worker, const pslib::Table& table) {
    const pslib::Pulled pulled = table.pulled();
    TableEvent event{.kind = TableEvent::Kind::pulled, .worker = worker};
    event.version = pulled.version;
    for (const int rank : pulled.contributors)
      event.contributors.push_back(static_cast<std::size_t>(rank - first_worker()));
    for (const auto& spec : table.specs()) {
      const auto values = table.parameter(spec.name).as<float>();
      event.values.insert(event.values.end(), values.begin(), values.end());
    }
    note(std::move(event));
  }

  void note(TableEvent event) {
    note_deaths();
    lives_.history.events.push_back(std::move(event));
  }

  void note_deaths() {
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      if (is_dead_[worker] || simulated_->lives(first_worker() + static_cast<int>(worker)))
        continue;
      is_dead_[worker] = true;
      if (has_begun_)
        lives_.history.events.push_back({.kind = TableEvent::Kind::died, .worker = worker});
    }
  }

  // Every rank has the table and a worker the parameters: from then on others may go on.
  void look_at_begin(int ranks) {
    if (!has_parameters_ || made_ < ranks) return;
    if (!std::exchange(is_whole_, true)) all_began_ = all_live(ranks);
  }

  bool all_live(int ranks) const {
    for (int rank = 0; rank < ranks; ++rank)
      if (!simulated_->lives(rank)) return false;
    return true;
  }

  // A rank that may go on without the dead must have ended as if they had not been there; the
  // others must have ended, be it by a timeout.
  void check_end(const SimOutcome& outcome) {
    for (const std::string& failure : outcome.failures)
      for (const char* const never : {"defect:", "not ended"})
        if (failure.find(never) != std::string::npos) lives_.failures.push_back(failure);
    const auto dead_workers = static_cast<std::size_t>(std::ranges::count(is_dead_, true));
    const std::size_t dead_servers = job_.servers == 0 ? 0 : outcome.killed.size() - dead_workers;
    const bool needs_workers = consistency_.kind == Consistency::Kind::bsp;
    const auto is_about = [](std::string_view words) {
      return [words](const std::string& text) { return text.find(words) != std::string::npos; };
    };
    const bool is_lost = std::ranges::any_of(outcome.failures, is_about("that held shard"));
    // A step or a start that a dead worker had to be part of ends the table: its servers leave.
    const bool must_end =
        dead_workers > 0 &&
        (needs_workers ||
         std::ranges::any_of(outcome.failures, is_about("before the table had its parameters")));
    if (all_began_ && is_lost && dead_servers < job_.replicas && !must_end)
      lives_.failures.push_back(
          fmt::format("a shard was lost with {} dead servers and {} replicas: {}", dead_servers,
                      job_.replicas, fmt::join(outcome.failures, "; ")));
    lives_.lost += is_lost ? 1 : 0;
    const bool goes_on =
        outcome.killed.empty() || (all_began_ && dead_servers < job_.replicas && !must_end);
    if (!goes_on) {
      ++lives_.ended_by_death;
      // A rank that can't go on is told why, and waits for nothing that will not come.
      for (const std::string& failure : outcome.failures)
        if (all_began_ && !must_end && is_about(": timeout: ")(failure))
          lives_.failures.push_back(failure);
      return;
    }
    lives_.dead_workers += dead_workers;
    lives_.dead_servers += dead_servers;
    for (const std::string& failure : outcome.failures) lives_.failures.push_back(failure);
    for (std::size_t worker = 0; worker < workers_; ++worker)
      if (!is_dead_[worker] && !has_ended_[worker])
        lives_.failures.push_back(fmt::format("worker {} has not ended", worker));
  }

  int first_worker() const { return static_cast<int>(job_.servers); }

  std::vector<pslib::TensorSpec> tensors() const {
    return {{"t", Shape{static_cast<std::int64_t>(kCells * code_.cell())}},
            {"u", Shape{static_cast<std::int64_t>(kSmallCells * code_.cell())}}};
  }

  Random random_;
  const Plant plant_;
  const Lot lot_;
  const std::size_t workers_;
  const Consistency consistency_;
  const PushCode code_;
  SavedTables saved_;
  TableLives lives_;
  std::vector<std::size_t> pushed_;  // by worker, over all jobs

  // The state of the job that runs.
  Job job_;
  SimJob* simulated_ = nullptr;
  std::uint64_t paces_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t checkpoint_ = 0;
  bool has_begun_ = false;       // a worker has the table
  bool has_parameters_ = false;  // and the parameters
  int made_ = 0;                 // ranks that have the table
  bool is_whole_ = false;        // all of them, and one the parameters
  bool all_began_ = false;       // no rank was dead then
  std::vector<bool> is_dead_;    // by worker
  std::vector<bool> has_ended_;  // by worker
};

}  // namespace

TableLives live_through(std::uint64_t seed, Plant plant, Lot lot) {
  return Lives(seed, plant, lot).run();
}

}  // namespace weft::tests
