// Two workers train a table with three servers, each shard on two of them. Worker 0 kills one
// server at a given step, and another once the first one's shards have two replicas again. Each
// worker prints its final parameters; pushes are the same in every run.
//   server_dies bsp|ssp|async [STEP MICROSECONDS SERVER]...
// With a kind such as lost_bsp worker 0 kills all of these servers at the first step: the workers
// print how their calls end.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/ranks/checks.hpp"
#include "weft/pslib.hpp"

namespace {

using namespace weft;
using pslib::Consistency;
using weft::tests::Checks;

constexpr int kWorkers = 2;
constexpr int kServers = 3;
constexpr int kSteps = 300;

struct Kill {
  int step;  // of the first kill; of a later one, counted from when the shards are whole again
  int microseconds;
  int rank;
};

PublishedSpec process_id() { return {.name = "process", .dtype = DType::i64, .shape = {1}}; }

/// Kills servers while worker 0 trains.
class Killer {
 public:
  Killer(World& world, std::vector<Kill> kills) : world_(world), kills_(std::move(kills)) {
    for (const Kill& kill : kills_)
      processes_.push_back(
          world.attach_published(kill.rank, process_id()).view().value().as<std::int64_t>()[0]);
  }

  /// Call after each step.
  void look() {
    if (next_ == kills_.size()) return;
    if (next_ > 0 && world_.alive(std::span(&kills_[next_ - 1].rank, 1)).ok()) return;
    const Kill& kill = kills_[next_];
    // Once two steps after the previous kill are acknowledged, all replicas have the whole state.
    if (++steps_ < (next_ > 0 ? 2 + kill.step : kill.step)) return;
    threads_.emplace_back([process = processes_[next_], after = kill.microseconds] {
      std::this_thread::sleep_for(std::chrono::microseconds(after));
      ::kill(static_cast<pid_t>(process), SIGKILL);
    });
    ++next_;
    steps_ = 0;
  }
  bool has_killed_all() const { return next_ == kills_.size(); }
  void kill_all_at_once() {
    for (const std::int64_t process : processes_) ::kill(static_cast<pid_t>(process), SIGKILL);
  }

 private:
  World& world_;
  const std::vector<Kill> kills_;
  std::vector<std::int64_t> processes_;
  std::vector<std::jthread> threads_;
  std::size_t next_ = 0;
  int steps_ = 0;
};

pslib::TableOptions options_of(std::string_view kind) {
  // In bsp the order of pushes is fixed, so any rule works; otherwise sums of small integers are
  // the same in any order.
  if (kind == "bsp") return pslib::Optimizer::adam(0.01F);
  pslib::TableOptions options(pslib::Optimizer::sgd(1.0F));
  options.consistency = kind == "ssp" ? Consistency::ssp(2) : Consistency::async();
  return options;
}

void fill(std::span<float> gradient, int rank, int step) {
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>((static_cast<int>(i) + 7 * step + 3 * rank) % 11 - 5);
}

void train(World& world, pslib::Table& table, std::vector<Kill> kills, Checks& checks) {
  table.initialize().or_throw();
  Killer killer(world, std::move(kills));
  std::uint64_t last = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (const char* name : {"t", "u"}) fill(table.gradient(name).as<float>(), world.rank(), step);
    table.push_pull().or_throw();
    checks.expect(table.version() >= last, "the version went back");
    last = table.version();
    killer.look();
  }
  checks.expect(killer.has_killed_all(), "there was no time for every kill");
}

/// Trains until too few servers are left.
void lose(World& world, pslib::Table& table, std::vector<Kill> kills) {
  table.initialize().or_throw();
  Killer killer(world, kills);
  Status status;
  for (int step = 0; status.ok() && step < kSteps; ++step) {
    for (const char* name : {"t", "u"}) fill(table.gradient(name).as<float>(), world.rank(), step);
    if (!kills.empty() && step == kills.front().step) killer.kill_all_at_once();
    status = table.push_pull();
  }
  std::printf("rank %d lost by %s of rank %d: %s\n", world.rank(),
              std::string(name(status.code())).c_str(), status.detail().peer,
              status.text().c_str());
}

void print_final(const pslib::Table& table, int rank) {
  std::uint64_t digest = 0;
  for (const char* name : {"t", "u"})
    for (const float value : table.parameter(name).as<float>()) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      digest = digest * 1'099'511'628'211ULL + bits;
    }
  std::printf("rank %d final %016llx\n", rank, static_cast<unsigned long long>(digest));
}

void work(World& world, pslib::Table& table, std::vector<Kill> kills, Checks& checks) {
  train(world, table, std::move(kills), checks);
  // Each worker pulls last after both workers have made all pushes.
  const PublishedSpec done{.name = "done", .dtype = DType::u8, .shape = {1}, .depth = 2};
  PublishedSlot mine = world.expose_published(done);
  PublishedReader other = world.attach_published(1 - world.rank(), done);
  mine.next().value();
  mine.publish().or_throw();
  const std::uint64_t seen = other.view().value().sequence();
  // A worker leaves only after the other has seen its mark; a worker that has left has seen the
  // other's.
  mine.next().value();
  mine.publish().or_throw();
  if (seen < 2) (void)other.view();
  for (const char* name : {"t", "u"})
    for (float& value : table.gradient(name).as<float>()) value = 0.0F;
  table.push_pull().or_throw();
  print_final(table, world.rank());
}

void run(World& world, std::string_view kind, std::vector<Kill> kills, Checks& checks) {
  PublishedSlot process;
  pslib::ParameterServer server(world, {.dedicated_servers = kServers, .replicas = 2});
  if (server.serves()) {
    process = world.expose_published(process_id());
    process.next().value().as<std::int64_t>()[0] = ::getpid();
    process.publish().or_throw();
  }
  constexpr std::string_view kLost = "lost_";
  const bool is_lost = kind.starts_with(kLost);
  if (is_lost) kind.remove_prefix(kLost.size());
  pslib::Table table =
      server.table("model", {{"t", Shape{30'000}}, {"u", Shape{100}}}, options_of(kind));
  if (server.works()) {
    if (world.rank() != 0) kills.clear();
    if (is_lost) return lose(world, table, std::move(kills));
    work(world, table, std::move(kills), checks);
    return;
  }
  pslib::Table* const tables[] = {&table};
  const Status status = server.serve(tables);
  if (!is_lost) status.or_throw();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc % 3 != 2) return 2;
  std::vector<Kill> kills;
  for (int i = 2; i < argc; i += 3)
    kills.push_back(
        {std::atoi(argv[i]), std::atoi(argv[i + 1]), kWorkers + std::atoi(argv[i + 2])});
  return tests::run_as_survivor(
      [&](World& world, Checks& checks) { run(world, argv[1], std::move(kills), checks); });
}
