#include "benchmarks/driver.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "base/os/cpus.hpp"
#include "benchmarks/launch.hpp"
#include "p2p/arena/memory_limits.hpp"

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kRunLimit{300};
constexpr std::size_t kKi = 1 << 10;
constexpr std::size_t kMi = 1 << 20;
constexpr std::size_t kGi = 1 << 30;

struct Program {
  std::string name;
  std::vector<std::string> command;  // the launcher with its flags, and the executable
};

std::filesystem::path own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

bool has_core_per_rank() { return os::usable_cpus() >= 2; }

// Both families of launchers pin rank 0 to the first core and rank 1 to the second.
std::optional<std::vector<std::string>> open_mpi_launcher() {
  const auto program = find_program({"mpirun.openmpi", "mpirun"});
  if (!program) return std::nullopt;
  std::vector<std::string> words{*program, "-n", "2"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (!has_core_per_rank()) words.emplace_back("--oversubscribe");
  words.insert(words.end(), {"--bind-to", has_core_per_rank() ? "core" : "none"});
  return words;
}

std::optional<std::vector<std::string>> mpich_launcher() {
  const auto program = find_program({"mpirun.mpich", "mpiexec.mpich"});
  if (!program) return std::nullopt;
  return std::vector<std::string>{*program, "-n", "2", "-bind-to",
                                  has_core_per_rank() ? "core" : "none"};
}

Program weft_program() {
  auto launcher = open_mpi_launcher();
  if (!launcher) throw std::runtime_error("no mpirun on PATH; install openmpi-bin (./dev setup)");
  launcher->push_back(own_path().string());
  return {"weft", *launcher};
}

std::optional<Program> peer_program(const std::string& name) {
  const auto executable = own_path().parent_path() / ("peer-" + name);
  auto launcher = name == "openmpi" ? open_mpi_launcher() : mpich_launcher();
  if (!launcher || !std::filesystem::exists(executable)) {
    fmt::print(stderr, "left out: {}: {} (./dev setup installs the peers; then build again)\n",
               name, launcher ? executable.string() + " was not built" : "no launcher on PATH");
    return std::nullopt;
  }
  launcher->push_back(executable.string());
  return Program{name, *launcher};
}

std::vector<std::size_t> default_sizes(const Plan& plan) {
  if (plan.run.benchmark == kLatency) return {8};
  if (plan.run.benchmark == kPushPull) return {64 * kMi};
  if (plan.quick) return {8, 64 * kKi, kMi, 16 * kMi};
  return {8,   kKi,     4 * kKi,  16 * kKi, 64 * kKi, 256 * kKi,
          kMi, 4 * kMi, 16 * kMi, 64 * kMi, 256 * kMi};
}

// The most that one program's two ranks hold at once: sources, slot and the limit's memory; or
// gradient, parameters (worker's and shard's) and the limit's two, with one to spare.
std::size_t memory_for(const std::string& benchmark, std::size_t size) {
  return size * (benchmark == kPushPull ? 6 : 3 * depth_for(size));
}

void check_sizes(const RunOptions& options) {
  if (options.benchmark == kLatency && options.sizes != std::vector<std::size_t>{8})
    throw std::runtime_error("latency has one size, 8 bytes; leave --sizes out, or use put-bw");
  for (const std::size_t size : options.sizes) {
    if (size > kGi)
      throw std::runtime_error(fmt::format("--sizes: {} bytes are more than 1g, the most", size));
    if (options.benchmark == kPushPull && size % sizeof(float) != 0)
      throw std::runtime_error(fmt::format("--sizes: {} bytes are no whole number of f32", size));
  }
}

// Runs as short as pairs can be: all sizes in one when that is quick, else a run for each.
std::vector<RunOptions> runs_for(const Plan& plan) {
  RunOptions all = plan.run;
  if (all.sizes.empty()) all.sizes = default_sizes(plan);
  check_sizes(all);
  all.budget = std::chrono::milliseconds(plan.quick ? 40 : 200);
  if (all.benchmark == kPushPull) all.budget *= 5;
  std::erase_if(all.sizes, [&](std::size_t size) {
    const auto refusal = p2p::refusal_to_grow(memory_for(all.benchmark, size));
    if (refusal) fmt::print(stderr, "left out: {} bytes: {}\n", size, *refusal);
    return refusal.has_value();
  });
  if (all.sizes.empty()) throw std::runtime_error("no size is left to measure");
  if (plan.quick) return {all};
  std::vector<RunOptions> runs;
  for (const std::size_t size : all.sizes) {
    runs.push_back(all);
    runs.back().sizes = {size};
  }
  return runs;
}

std::vector<RunRow> run_once(const Program& program, const RunOptions& options) {
  std::vector<std::string> words = program.command;
  const auto more = arguments(options);
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = launch(words, kRunLimit);
  if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("`{}` ended with {}:\n{}", fmt::join(words, " "),
                                         outcome.exit_code, outcome.errors));
  return rows_in(outcome.output);
}

std::string column(const std::string& program, const std::string& value) {
  if (program == "weft") return value;
  return value == "sendrecv" ? program : program + "_" + value;
}

void add(Results& results, const std::string& program, const std::vector<RunRow>& rows) {
  for (const RunRow& row : rows) {
    auto found = std::find_if(results.begin(), results.end(), [&](const Measurements& m) {
      return m.size == row.size && m.kind == row.kind;
    });
    if (found == results.end())
      found = results.insert(results.end(), Measurements{row.size, row.kind, {}});
    for (const auto& [name, value] : row.values)
      found->columns[column(program, name)].push_back(value);
  }
}

void forget(Results& results, const std::string& program) {
  for (Measurements& row : results)
    std::erase_if(row.columns, [&](const auto& entry) {
      return entry.first == program || entry.first.starts_with(program + "_");
    });
}

}  // namespace

Results run(const Plan& plan) {
  std::vector<Program> programs{weft_program()};
  for (const std::string& peer : plan.peers)
    if (peer != "none")
      if (auto program = peer_program(peer)) programs.push_back(std::move(*program));
  if (!has_core_per_rank())
    fmt::print(stderr, "two ranks share one core here: the figures say little\n");

  Results results;
  std::vector<std::string> failed;
  for (const RunOptions& options : runs_for(plan)) {
    for (unsigned pair = 0; pair < plan.pairs; ++pair) {
      for (const Program& program : programs) {
        if (std::find(failed.begin(), failed.end(), program.name) != failed.end()) continue;
        try {
          add(results, program.name, run_once(program, options));
        } catch (const std::exception& error) {
          if (program.name == "weft") throw;
          fmt::print(stderr, "left out: {}: {}\n", program.name, error.what());
          forget(results, program.name);
          failed.push_back(program.name);
        }
      }
      std::reverse(programs.begin(), programs.end());  // nobody is always the first
    }
  }
  return results;
}

}  // namespace weft::bench
