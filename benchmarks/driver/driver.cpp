#include "benchmarks/driver/driver.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/config.hpp"
#include "benchmarks/driver/catalogue.hpp"
#include "benchmarks/driver/hosts.hpp"
#include "benchmarks/driver/iperf3.hpp"
#include "benchmarks/driver/launch.hpp"
#include "benchmarks/driver/other_build.hpp"
#include "benchmarks/driver/programs.hpp"
#include "benchmarks/harness/rpc_built.hpp"
#include "benchmarks/harness/transfer.hpp"
#if defined(WEFT_HAS_VERBS)
#include "benchmarks/driver/perftest.hpp"
#endif
#include "p2p/memory/memory_limits.hpp"

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kRunLimit{600};
constexpr int kMostReaders = 7;
constexpr int kMostRanks = 64;

void add_perftest([[maybe_unused]] std::vector<Program>& programs, const Description& benchmark) {
  std::string why = fmt::format("{} does not run by RDMA", benchmark.name);
#if defined(WEFT_HAS_VERBS)
  if (benchmark.has_perftest) {
    const auto missing = perftest_missing();
    if (!missing) {
      programs.push_back(
          {.name = "perftest", .launcher = {}, .executable = {}, .measure = run_perftest});
      return;
    }
    why = *missing;
  }
#endif
  fmt::print(stderr, "left out: perftest: {}\n", why);
}

std::vector<Program> programs_for(const Plan& plan, const Description& benchmark) {
  std::vector<Program> programs{weft_program()};
  const std::vector<std::string> all(benchmark.peers.begin(), benchmark.peers.end());
  std::vector<std::string> peers = plan.peers;
  if (!plan.against.empty()) {
    programs.push_back({.name = std::string(kAgainst),
                        .launcher = programs.front().launcher,
                        .executable = weft_bench_of(plan.against, benchmark.name)});
  } else if (peers.empty()) {
    peers = all;
  }
  for (const std::string& peer : peers) {
    if (peer == "none") continue;
    if (peer == "iperf3" && benchmark.name == kWire) {
      if (const auto missing = iperf3_missing())
        fmt::print(stderr, "left out: iperf3: {}\n", *missing);
      else
        programs.push_back(
            {.name = "iperf3", .launcher = {}, .executable = {}, .measure = run_iperf3});
      continue;
    }
    if (peer == "perftest") {
      add_perftest(programs, benchmark);
      continue;
    }
    if (peer == "mpich" && !flags_for_hosts(2).empty())
      fmt::print(stderr, "left out: mpich: these hosts have no launcher for it\n");
    else if (std::find(all.begin(), all.end(), peer) == all.end())
      fmt::print(stderr, "left out: {}: it does not do the work of {}\n", peer, benchmark.name);
    else if (auto program = peer_program(peer))
      programs.push_back(std::move(*program));
  }
  return programs;
}

/// Throws BadOption if the benchmark's ranks share no memory here but must.
void check_place(const Description& benchmark) {
  const char* fabric = std::getenv("WEFT_FABRIC");
  const bool by_net = fabric != nullptr && std::string_view(fabric) != "auto" &&
                      std::string_view(fabric) != "shm" && !std::string_view(fabric).empty();
  if (benchmark.between_hosts || (!by_net && flags_for_hosts(2).empty())) return;
  std::vector<std::string_view> able;
  for (const Description& one : catalogue())
    if (one.between_hosts) able.push_back(one.name);
  throw BadOption(fmt::format(
      "{} measures ranks that share memory: it runs neither between hosts nor by --fabric tcp or "
      "verbs, as {} do",
      benchmark.name, fmt::join(able, ", ")));
}

// The numbers of ranks to run: one, those of a collective, or one for each number of readers.
std::vector<int> ranks_for(const Plan& plan, const Description& benchmark) {
  if (!benchmark.is_collective && !plan.ranks.empty())
    throw BadOption(fmt::format("--ranks: only collectives take it; {} runs on {}", benchmark.name,
                                benchmark.has_readers
                                    ? "a rank more than --readers"
                                    : fmt::format("{} ranks", benchmark.ranks[0])));
  if (benchmark.is_collective) {
    for (const int ranks : plan.ranks)
      if (ranks < 2 || ranks > kMostRanks)
        throw BadOption(fmt::format("--ranks: 2 to {}, not {}", kMostRanks, ranks));
    return plan.ranks.empty() ? benchmark.ranks : plan.ranks;
  }
  if (!benchmark.has_readers) return benchmark.ranks;
  std::vector<int> ranks;
  for (const int readers : plan.readers) {
    if (readers < 1 || readers > kMostReaders)
      throw BadOption(fmt::format("--readers: 1 to {} of them, not {}", kMostReaders, readers));
    ranks.push_back(readers + 1);
  }
  return ranks;
}

std::vector<RunOptions> by_size(const RunOptions& all) {
  std::vector<RunOptions> runs;
  for (const std::size_t size : all.sizes) {
    runs.push_back(all);
    runs.back().sizes = {size};
  }
  return runs;
}

/// Huge tensors have runs of their own, for each kind of row one.
std::vector<RunOptions> by_kind(RunOptions run, const Description& benchmark) {
  std::vector<RunOptions> runs;
  if (!benchmark.kinds_apart.empty())
    for (const std::size_t size : run.sizes)
      for (const std::string_view kind : benchmark.kinds_apart) {
        if (size <= kHuge) break;
        if (kind == kByRpc && (size >= kMostMessage || !kRpcRefusal.empty())) {
          fmt::print(stderr, "left out: {} bytes by rpc: {}\n", size,
                     kRpcRefusal.empty() ? "protobuf's messages end at 2 GiB" : kRpcRefusal);
          continue;
        }
        runs.push_back(run);
        runs.back().sizes = {size};
        runs.back().kind = kind;
      }
  if (!runs.empty()) std::erase_if(run.sizes, [](std::size_t size) { return size > kHuge; });
  if (!run.sizes.empty()) runs.insert(runs.begin(), std::move(run));
  return runs;
}

bool fits_no_message(const RunOptions& run) {
  return std::ranges::all_of(run.sizes, [](std::size_t size) { return size >= kMostMessage; });
}

// The shortest possible runs: all sizes in one run if that is quick, otherwise a run for each size.
std::vector<RunOptions> runs_for(const Plan& plan, const Description& benchmark) {
  RunOptions all = plan.run;
  if (all.sizes.empty()) all.sizes = plan.quick ? benchmark.quick_sizes : benchmark.sizes;
  check_sizes(benchmark, all.sizes);
  all.budget = std::chrono::milliseconds(plan.quick ? 40 : 200) * benchmark.budget_factor;
  std::vector<RunOptions> runs;
  for (const int ranks : ranks_for(plan, benchmark)) {
    RunOptions some = all;
    some.ranks = ranks;
    some.crowded = !has_core_per_rank(ranks);
    std::erase_if(some.sizes, [&](std::size_t size) {
      const auto refusal = p2p::refusal_to_grow(benchmark.memory(size, ranks));
      if (refusal) fmt::print(stderr, "left out: {} bytes: {}\n", size, *refusal);
      return refusal.has_value();
    });
    if (some.sizes.empty()) continue;
    const bool at_once = plan.quick || benchmark.sizes_in_one_run;
    const auto more = at_once ? std::vector<RunOptions>{some} : by_size(some);
    for (const RunOptions& run : more) {
      const auto split = by_kind(run, benchmark);
      runs.insert(runs.end(), split.begin(), split.end());
    }
  }
  if (runs.empty()) throw std::runtime_error("no size is left to measure");
  return runs;
}

/// Rows that a run has left out, each told once.
void tell_left_out(const std::string& errors, std::set<std::string>& told) {
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("left out: ") && told.insert(line).second)
      fmt::print(stderr, "{}\n", line);
}

std::vector<RunRow> run_once(const Program& program, const RunOptions& options,
                             std::set<std::string>& told) {
  if (program.measure != nullptr) return program.measure(options);
  const bool pinned = !options.crowded && !program.has_threads;
  const auto words = command(program, {options.ranks, pinned, options.crowded}, arguments(options));
  const Outcome outcome = launch(words, kRunLimit);
  if (program.name == kAgainst) return rows_of_other_build(program.executable, outcome);
  if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("`{}` ended with {}:\n{}", fmt::join(words, " "),
                                         outcome.exit_code, outcome.errors));
  tell_left_out(outcome.errors, told);
  return rows_in(outcome.output);
}

}  // namespace

Machine machine_of_runs() { return {processors(), congestion_control()}; }

Results run(const Plan& plan) {
  const Description& benchmark = description_of(plan.run.benchmark);
  // Otherwise ranks of one host would use shared memory.
  if (benchmark.has_perftest) ::setenv("WEFT_FABRIC", "verbs", 1);
  if (!plan.fabric.empty()) {
    (void)Config().with(Setting::fabric, plan.fabric);  // throws where it is none
    ::setenv("WEFT_FABRIC", plan.fabric.c_str(), 1);
  }
  check_place(benchmark);
  const auto runs = runs_for(plan, benchmark);
  auto programs = programs_for(plan, benchmark);
  for (const int ranks : ranks_for(plan, benchmark))
    if (!has_core_per_rank(ranks))
      fmt::print(stderr, "{} ranks share {} processor(s) here: the figures say little\n", ranks,
                 processors());

  Results results;
  std::vector<std::string> failed;
  std::set<std::string> told;
  for (const RunOptions& options : runs) {
    for (unsigned pair = 0; pair < plan.pairs; ++pair) {
      for (const Program& program : programs) {
        if (std::find(failed.begin(), failed.end(), program.name) != failed.end()) continue;
        if (program.name == "grpc" && fits_no_message(options)) continue;
        try {
          add(results, program.name, options.ranks, run_once(program, options, told));
        } catch (const std::exception& error) {
          if (is_weft(program)) throw;
          fmt::print(stderr, "left out: {}: {}\n", program.name, error.what());
          forget(results, program.name);
          failed.push_back(program.name);
        }
      }
      std::reverse(programs.begin(), programs.end());  // no program is always first
    }
  }
  const bool too_large = std::ranges::any_of(
      results, [](const Measurements& row) { return row.size >= kMostMessage; });
  if (too_large &&
      std::ranges::any_of(programs, [](const Program& one) { return one.name == "grpc"; }))
    fmt::print(stderr, "left out: grpc: tensors of 2 GiB and more, which no message holds\n");
  if (!plan.against.empty()) keep_common_rows(results);
  return results;
}

}  // namespace weft::bench
