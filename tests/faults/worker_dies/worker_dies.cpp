// Three workers and a server train a table that is not bsp; worker 1 dies at a given time. The
// others train 100 steps after they see it dead: no value is torn, no version goes back, and no
// worker waits for the dead one.
//   worker_dies ssp|async|k_of_n MILLISECONDS
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/ranks/checks.hpp"
#include "weft/pslib.hpp"

namespace {

using namespace weft;
using pslib::Consistency;
using weft::tests::Checks;

constexpr int kVictim = 1;
constexpr std::uint64_t kStepsAfter = 100;

Consistency consistency_of(std::string_view kind) {
  if (kind == "ssp") return Consistency::ssp(3);
  if (kind == "async") return Consistency::async();
  return Consistency::first(2);
}

void die_after(int milliseconds) {
  std::signal(SIGALRM, [](int) { ::kill(::getpid(), SIGKILL); });
  itimerval when{};
  when.it_value.tv_usec = milliseconds * 1000;
  ::setitimer(ITIMER_REAL, &when, nullptr);
}

void train(World& world, pslib::Table& table, int milliseconds, Checks& checks) {
  table.initialize().or_throw();
  if (world.rank() == kVictim) die_after(milliseconds);
  const auto gradient = table.gradient("t").as<float>();
  const auto values = table.parameter("t").as<float>();
  std::uint64_t last = 0;
  const int victim[] = {kVictim};
  for (std::uint64_t left = kStepsAfter; left > 0;) {
    std::ranges::fill(gradient, -1.0F);
    table.push_pull().or_throw();
    const bool is_one = std::ranges::all_of(values, [&](float v) { return v == values.front(); });
    checks.expect(is_one && values.front() == static_cast<float>(table.version()),
                  "version " + std::to_string(table.version()) + " is torn");
    checks.expect(table.version() >= last, "the version went back");
    last = table.version();
    if (!world.alive(victim)) --left;
  }
}

void run(World& world, std::string_view kind, int milliseconds, Checks& checks) {
  pslib::ParameterServer server(world, {.dedicated_servers = 1});
  pslib::TableOptions options(pslib::Optimizer::sgd(1.0F));
  options.consistency = consistency_of(kind);
  pslib::Table table = server.table("model", {{"t", Shape{20'000}}}, options);
  if (server.works()) {
    train(world, table, milliseconds, checks);
    return;
  }
  pslib::Table* const tables[] = {&table};
  server.serve(tables).or_throw();
  checks.expect(table.version() >= kStepsAfter, "too few updates");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return tests::run_as_survivor(
      [&](World& world, Checks& checks) { run(world, argv[1], std::atoi(argv[2]), checks); });
}
