// Replicated tables of whole jobs whose servers die.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <utility>

#include "tests/sim/simulated_job.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using std::chrono::microseconds;

constexpr int kWorkers = 2;
constexpr int kSteps = 12;

struct Plan {
  int servers = 3;
  int replicas = 2;
  Consistency consistency = {};
  pslib::Compression compression = {};
  SimOptions options = {};
};

/// So many that a server receives the parts of its own shards alone.
constexpr std::int64_t kElements = 1000;
/// Elements that lie elsewhere have other values, which 8 bits hold too as they are the same in
/// each block.
float weight_of(std::size_t element) { return 1.0F + static_cast<float>(element / 256); }

/// All elements of a shard have one value by their weight; a pull that mixed two versions has
/// several.
void expect_whole(const pslib::Table& table) {
  const auto values = table.parameter("t").as<float>();
  const auto of_weight = [&](std::int64_t element) {
    const auto at = static_cast<std::size_t>(element);
    return values[at] / weight_of(at);
  };
  for (const pslib::ShardPiece& piece : table.pieces())
    for (std::int64_t i = 0; i < piece.count; ++i)
      EXPECT_EQ(of_weight(piece.first + i), of_weight(piece.first)) << "a torn pull";
}

class Training {
 public:
  explicit Training(const Plan& plan)
      : plan_(plan), job_(kWorkers + plan.servers, plan.options, simulated_settings()) {}

  SimOutcome run() {
    return job_.run([this](World& world) {
      pslib::ParameterServer server(
          world,
          {.dedicated_servers = plan_.servers, .replicas = plan_.replicas, .split_bytes = 64});
      pslib::TableOptions options(pslib::Optimizer::sgd(1.0F));
      options.consistency = plan_.consistency;
      options.compression = plan_.compression;
      pslib::Table table = server.table("model", {{"t", Shape{kElements}}}, options);
      ++made_;
      look_at_begin(world.size());
      if (server.works()) return work(world, table);
      pslib::Table* const tables[] = {&table};
      server.serve(tables).or_throw();
    });
  }

  int finished() const { return finished_; }
  /// True if no rank had died by the time when all ranks had the table and a worker had the
  /// parameters. Otherwise the job need not go on.
  bool began_whole() const { return began_whole_; }

 private:
  // Worker i's gradients are -127 (1 + i), which 8 bits hold too, so the sum says whether each was
  // applied once.
  void work(World& world, pslib::Table& table) {
    table.initialize().or_throw();
    has_parameters_ = true;
    look_at_begin(world.size());
    std::uint64_t last = 0;
    for (int step = 1; step <= kSteps; ++step) {
      job_.sleep(world, microseconds(20 * (world.rank() + step % 3)));
      step_of_[world.rank()] = step;
      push_pull(table, -127.0F * (1.0F + static_cast<float>(world.rank())));
      EXPECT_GE(table.version(), last) << "a version went back";
      last = table.version();
      // Where a rank died before all had the table, its workers may not all take part.
      if (began_whole_ && plan_.consistency.kind == Consistency::Kind::ssp) {
        for (const int other : step_of_)
          EXPECT_GE(other, step - static_cast<int>(plan_.consistency.staleness));
      }
    }
    step_of_[world.rank()] = kSteps + 1;
    if (plan_.consistency.kind != Consistency::Kind::bsp)
      while (step_of_[1 - world.rank()] <= kSteps) job_.sleep(world, microseconds(100));
    push_pull(table, 0.0F);
    const float each = plan_.consistency.kind == Consistency::Kind::bsp ? 190.5F : 381.0F;
    const auto values = table.parameter("t").as<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], each * kSteps * weight_of(i)) << i;
    ++finished_;
  }

  void look_at_begin(int ranks) {
    if (!has_parameters_ || made_ < ranks || std::exchange(is_whole_, true)) return;
    began_whole_ = true;
    for (int rank = 0; rank < ranks; ++rank) began_whole_ = began_whole_ && job_.lives(rank);
  }

  static void push_pull(pslib::Table& table, float gradient) {
    const auto values = table.gradient("t").as<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = gradient * weight_of(i);
    table.push_pull().or_throw();
    expect_whole(table);
  }

  const Plan plan_;
  SimJob job_;
  int step_of_[kWorkers] = {};
  int finished_ = 0;
  int made_ = 0;
  bool has_parameters_ = false;
  bool is_whole_ = false;
  bool began_whole_ = false;
};

TEST(ReplicatedTables, GoOnWhenServersDieAsIfNothingHadHappened) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const std::uint64_t seeds = given != nullptr                           ? 1
                              : std::getenv("WEFT_TEST_FULL") != nullptr ? 3'000
                                                                         : 60;
  const std::uint64_t first =
      given != nullptr ? std::stoull(given) : std::random_device{}() * std::uint64_t{10'000};
  const Consistency kinds[] = {Consistency::bsp(), Consistency::async(), Consistency::ssp(1)};
  std::uint64_t killed = 0;
  for (std::uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Plan plan{.replicas = 2 + static_cast<int>(seed % 2), .consistency = kinds[seed % 3]};
    plan.servers = plan.replicas + static_cast<int>(seed / 2 % 2);
    if (seed % 5 < 2) plan.compression = pslib::Compression::int8();
    plan.options.seed = seed;
    plan.options.faults = {.delayed = 0.05, .woken = 0.02, .paused = 0.005};
    plan.options.faults.spared = kWorkers;
    plan.options.faults.kills = plan.replicas - 1;
    plan.options.faults.kill_after = 150;
    plan.options.faults.kill_within = 600;
    Training training(plan);
    const SimOutcome outcome = training.run();
    if (!training.began_whole()) continue;
    killed += outcome.killed.size();
    for (const std::string& failure : outcome.failures) ADD_FAILURE() << failure;
    EXPECT_EQ(training.finished(), kWorkers) << outcome.text;
  }
  if (given == nullptr) {
    EXPECT_GT(killed, seeds / 3) << "else it tries nothing";
  }
}

}  // namespace
}  // namespace weft::tests
