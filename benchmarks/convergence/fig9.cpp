#include "benchmarks/convergence/fig9.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/os/cpus.hpp"
#include "benchmarks/convergence/curves.hpp"
#include "benchmarks/convergence/fig9_output.hpp"
#include "benchmarks/driver/catalogue.hpp"
#include "benchmarks/driver/hosts.hpp"
#include "benchmarks/driver/launch.hpp"
#include "benchmarks/harness/rpc_built.hpp"

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kRunLimit{300};
constexpr unsigned kRuns = 5;
constexpr unsigned kQuickRuns = 3;

struct Fig9Plan {
  bool quick = false;
  unsigned runs = 0;  ///< of each way; 0: the usual number
  int steps = 0;      ///< 0: each example's own
  std::string fabric;
  std::vector<std::string> examples;
  std::vector<std::string> ways;
  std::string json, csv, svg;
  std::vector<std::string> worker;  ///< of a rank: way, example, steps
};

Fig9Plan parse(int count, char** words) {
  Fig9Plan plan;
  std::vector<std::string> examples;
  for (const Subject& subject : subjects()) examples.emplace_back(subject.name);
  const std::vector<std::string> ways(kCourseWays.begin(), kCourseWays.end());
  CLI::App app{
      "Loss by time of three trainings on two ranks, by each way of their tensors, beside "
      "the paper's figure 9",
      "weft-bench fig9"};
  app.add_flag("--quick", plan.quick, "three runs of each way: under ten minutes on two cores");
  app.add_option("--runs", plan.runs, "runs of each way [5, or 3 with --quick]")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--steps", plan.steps, "training steps [each example's own]")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--fabric", plan.fabric, "of weft's ranks: shm, tcp or verbs")
      ->check(CLI::IsMember({"shm", "tcp", "verbs"}));
  app.add_option("--examples", plan.examples, "some of them [all]")
      ->delimiter(',')
      ->check(CLI::IsMember(examples));
  app.add_option("--ways", plan.ways, "some of them [all]")
      ->delimiter(',')
      ->check(CLI::IsMember(ways));
  app.add_option("--json", plan.json, "write times and losses to this file as JSON");
  app.add_option("--csv", plan.csv, "write every step of every way as comma-separated values");
  app.add_option("--svg", plan.svg, "draw loss by time into this file, by matplotlib");
  app.add_option("--worker", plan.worker)->expected(3)->group("");
  try {
    app.parse(count, words);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    throw BadOption(error.what());
  }
  if (plan.examples.empty()) plan.examples = examples;
  if (plan.ways.empty()) plan.ways = ways;
  if (plan.runs == 0) plan.runs = plan.quick ? kQuickRuns : kRuns;
  return plan;
}

int work_on_course(const std::vector<std::string>& words) try {
  World world = World::join();
  const Course course =
      train(world, subject_of(words[1]), std::stoi(words[2]), executor_by(words[0]));
  if (world.rank() == 0) fmt::print("{}\n", to_line(course));
  std::fflush(stdout);
  world.leave().or_throw();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "weft-bench: fig9: {}\n", error.what());
  return 1;
}

bool is_grpc(std::string_view way) { return way == kByGrpc; }
/// A way that needs libraries which may be missing.
bool is_built_elsewhere(std::string_view way) {
  return is_grpc(way) || (way == kByRpcEdges && !kRpcRefusal.empty());
}

std::vector<std::string> command(std::string_view way, const Subject& subject, int steps) {
  const auto launcher = find_program({"mpirun.openmpi", "mpirun"});
  if (!launcher) throw std::runtime_error("no mpirun on PATH; install openmpi-bin (./dev setup)");
  if (way == kByRpcEdges && !kRpcRefusal.empty()) throw std::runtime_error(kRpcRefusal.data());
  std::vector<std::string> words{*launcher};
  const auto hosts = flags_for_hosts(kCourseRanks);
  if (::geteuid() == 0 && hosts.empty()) words.emplace_back("--allow-run-as-root");
  // Threads of gRPC's own move the data: on a core with their rank alone they would be held up.
  const bool pinned = !is_grpc(way) && os::usable_cpus() >= kCourseRanks;
  words.insert(words.end(), {"-n", std::to_string(kCourseRanks)});
  words.insert(words.end(), hosts.begin(), hosts.end());
  if (hosts.empty()) {
    if (!pinned) words.emplace_back("--oversubscribe");
    words.insert(words.end(), {"--bind-to", pinned ? "core" : "none"});
  }
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  if (is_grpc(way)) {
    const auto peer = own.parent_path() / "peer-grpc";
    if (!std::filesystem::exists(peer))
      throw std::runtime_error(fmt::format(
          "{} was not built (./dev bench installs the peers and builds them)", peer.string()));
    words.insert(words.end(), {peer.string(), kFig9});
  } else {
    words.insert(words.end(), {own.string(), kFig9, "--worker", std::string(way)});
  }
  words.insert(words.end(), {std::string(subject.name), std::to_string(steps)});
  return words;
}

Course run_course(std::string_view way, const Subject& subject, int steps) {
  const auto words = command(way, subject, steps);
  const Outcome outcome = launch(words, kRunLimit);
  if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("`{}` ended with {}: {}", fmt::join(words, " "),
                                         outcome.exit_code, outcome.errors));
  return course_in(outcome.output);
}

std::string fabric_of(std::string_view way, const Fig9Plan& plan) {
  const bool one_host = flags_for_hosts(kCourseRanks).empty();
  if (is_grpc(way)) return one_host ? "Unix socket" : "tcp";
  return plan.fabric.empty() ? "auto" : plan.fabric;
}

Experiment run_example(const Fig9Plan& plan, const Subject& subject) {
  Experiment experiment{&subject, plan.steps > 0 ? plan.steps : subject.steps, {}};
  for (const std::string_view way : kCourseWays)
    if (std::ranges::find(plan.ways, way) != plan.ways.end())
      experiment.ways.push_back({way, fabric_of(way, plan), {}});
  std::vector<std::size_t> order(experiment.ways.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<std::string_view> failed;
  for (unsigned run = 1; run <= plan.runs; ++run) {
    for (const std::size_t i : order) {
      WayRuns& way = experiment.ways[i];
      if (std::ranges::find(failed, way.way) != failed.end()) continue;
      try {
        way.runs.push_back(run_course(way.way, subject, experiment.steps));
        fmt::print(stderr, "{}, {}, run {} of {}: {:.1f} s\n", subject.name, way.way, run,
                   plan.runs, way.runs.back().seconds.back());
      } catch (const std::exception& error) {
        if (!is_built_elsewhere(way.way)) throw;
        fmt::print(stderr, "left out: {}: {}\n", way.way, error.what());
        failed.push_back(way.way);
      }
    }
    std::ranges::reverse(order);  // no way is always first
  }
  std::erase_if(experiment.ways, [&](const WayRuns& way) {
    return std::ranges::find(failed, way.way) != failed.end();
  });
  return experiment;
}

}  // namespace

int run_fig9(int count, char** arguments) {
  Fig9Plan plan = parse(count, arguments);
  if (!plan.worker.empty()) return work_on_course(plan.worker);
  if (!plan.fabric.empty()) ::setenv("WEFT_FABRIC", plan.fabric.c_str(), 1);
  const bool shares_memory =
      flags_for_hosts(kCourseRanks).empty() && (plan.fabric.empty() || plan.fabric == "shm");
  if (!shares_memory && std::erase(plan.ways, std::string(kByViews)) > 0)
    fmt::print(stderr, "left out: {}: the ranks share no memory\n", kByViews);
  if (plan.ways.empty()) throw std::runtime_error("no way is left to measure");

  std::vector<Experiment> experiments;
  for (const Subject& subject : subjects())
    if (std::ranges::find(plan.examples, subject.name) != plan.examples.end())
      if (Experiment one = run_example(plan, subject); !one.ways.empty())
        experiments.push_back(std::move(one));
  if (experiments.empty()) throw std::runtime_error("no way could be measured");

  fmt::print("{}", fig9_table(experiments));
  if (plan.csv.empty() && !plan.svg.empty())
    plan.csv = std::filesystem::path(plan.svg).replace_extension(".csv").string();
  if (!plan.csv.empty()) write_fig9_csv(plan.csv, experiments);
  if (!plan.json.empty()) write_fig9_json(plan.json, experiments);
  if (!plan.svg.empty()) draw_fig9(plan.csv, plan.svg);
  return std::ranges::all_of(experiments, same_losses) ? 0 : 1;
}

}  // namespace weft::bench
