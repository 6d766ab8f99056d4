#include "benchmarks/experiments/runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <stdexcept>

#include "benchmarks/driver/driver.hpp"
#include "benchmarks/driver/hosts.hpp"
#include "benchmarks/driver/launch.hpp"
#include "benchmarks/harness/rpc_built.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/workloads/models.hpp"
#include "p2p/memory/memory_limits.hpp"

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kRunLimit{600};

/// A run failed: why, in a line.
struct RunFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The line in which a rank says why it ended; else the last line.
std::string reason_in(const std::string& errors) {
  std::istringstream lines(errors);
  std::string last = "it said nothing";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("weft-bench: ") || line.starts_with("peer-grpc: ")) return line;
    if (line.find_first_not_of(" -") != std::string::npos) last = line;
  }
  return last;
}

std::vector<RunRow> launch_job(const Program& program, const TrainingOptions& job) {
  const bool crowded = !has_core_per_rank(job.ranks);
  const Outcome outcome =
      launch(command(program, {job.ranks, false, crowded}, arguments(job)), kRunLimit);
  if (outcome.exit_code != 0)
    throw RunFailed(
        fmt::format("exit status {}: {}", outcome.exit_code, reason_in(outcome.errors)));
  return rows_in(outcome.output);
}

/// A program's part of a job: its ways.
struct Task {
  Program program;
  TrainingOptions job;
};

class Launcher {
 public:
  explicit Launcher(const ExperimentOptions& options) : options_(options), weft_(weft_program()) {}

  /// Without the ways that can't run here.
  std::vector<Task> tasks_of(const TrainingOptions& job) {
    TrainingOptions own = job;
    if (!kRpcRefusal.empty() && std::erase(own.ways, kRpcWay) > 0)
      skip(fmt::format("{} by rpc", job.model), std::string(kRpcRefusal));
    const std::size_t wanted = own.ways.size();
    std::erase_if(own.ways, [](const std::string& way) { return way == kGrpcWay; });
    std::vector<Task> tasks;
    if (!own.ways.empty()) tasks.push_back({weft_, own});
    if (own.ways.size() < wanted && job.ranks > 1)
      if (const auto peer = grpc()) {
        own.ways = {std::string(kGrpcWay)};
        tasks.push_back({*peer, own});
      }
    for (Task& task : tasks)
      std::erase_if(task.job.ways, [&](const std::string& way) {
        const auto refusal =
            p2p::refusal_to_grow(memory_of(model_called(job.model).bytes(), job.ranks, way));
        if (refusal) skip(fmt::format("{} on {} ranks by {}", job.model, job.ranks, way), *refusal);
        return refusal.has_value();
      });
    std::erase_if(tasks, [](const Task& task) { return task.job.ways.empty(); });
    return tasks;
  }

  void skip(const std::string& subject, const std::string& why) const {
    fmt::print(stderr, "{}: skipped: {}: {}\n", options_.name, subject, why);
  }

 private:
  const std::optional<Program>& grpc() {
    if (!looked_) grpc_ = peer_program("grpc");
    looked_ = true;
    return grpc_;
  }

  const ExperimentOptions& options_;
  Program weft_;
  std::optional<Program> grpc_;
  bool looked_ = false;
};

/// Why the fabric isn't there, in a line.
std::optional<std::string> missing_device(const std::string& fabric) {
  if (fabric != "verbs") return std::nullopt;
  const std::filesystem::path devices = "/sys/class/infiniband";
  std::error_code error;
  if (std::filesystem::exists(devices, error) && !std::filesystem::is_empty(devices, error))
    return std::nullopt;
  return "this host has no RDMA device (" + devices.string() + " is empty)";
}

}  // namespace

void Measured::add(const Point& point, double steps_per_s,
                   const std::map<std::string, double>& figures) {
  PointRuns& seen = points_[point];
  seen.steps_per_s.push_back(steps_per_s);
  for (const auto& [name, value] : figures) seen.figures[name].push_back(value);
}

const PointRuns* Measured::find(const Point& point) const {
  const auto found = points_.find(point);
  return found == points_.end() ? nullptr : &found->second;
}

std::optional<Figure> Measured::ratio(const Point& point, const Point& other) const {
  const PointRuns* const above = find(point);
  const PointRuns* const below = find(other);
  if (above == nullptr || below == nullptr) return std::nullopt;
  const auto all = ratios(above->steps_per_s, below->steps_per_s);
  return Figure{median(all), spread(all)};
}

std::size_t memory_of(std::size_t model_bytes, int ranks, std::string_view way) {
  // A rank has its share of the parameters, all gradients that it writes, those that its share
  // gets from all workers, and all parameters. Views need two buffers of the gradients alone;
  // copies and messages come on top of tensors.
  const double factor = way == kViewsWay                      ? 2.2
                        : way == kCopiedWay || way == kRpcWay ? 4.2
                        : way == kGrpcWay                     ? 5.5
                                                              : 3.2;
  return static_cast<std::size_t>(factor * static_cast<double>(model_bytes)) *
         static_cast<std::size_t>(ranks);
}

std::string_view own_way(const ExperimentOptions& options) {
  return options.fabric == "shm" && flags_for_hosts(2).empty() ? kViewsWay : kSlotsWay;
}

std::vector<TrainingOptions> jobs_of(const ExperimentOptions& options,
                                     const ExperimentOptions& own) {
  const auto chosen = [](const auto& given, const auto& else_these) {
    return given.empty() ? else_these : given;
  };
  std::vector<std::string> names;
  for (const Model& model : models()) names.emplace_back(model.name);
  names = chosen(options.models, chosen(own.models, names));
  std::vector<TrainingOptions> jobs;
  for (const std::string& model : names)
    for (const int ranks : chosen(options.ranks, own.ranks)) {
      TrainingOptions job{.model = model,
                          .batches = chosen(options.batches, own.batches),
                          .ways = chosen(options.ways, own.ways),
                          .ranks = ranks,
                          .compute = options.compute,
                          .budget = std::chrono::milliseconds(options.quick ? 300 : 2000),
                          .check = options.check};
      // A rank alone has no edges: one way stands for all.
      if (ranks == 1) job.ways = {std::string(own_way(options))};
      std::set<std::string> once;
      std::erase_if(job.ways, [&](const std::string& way) { return !once.insert(way).second; });
      jobs.push_back(std::move(job));
    }
  return jobs;
}

Measured measure_jobs(const ExperimentOptions& options, const std::vector<TrainingOptions>& jobs) {
  Measured measured;
  ::setenv("WEFT_FABRIC", options.fabric.c_str(), 1);
  Launcher launcher(options);
  if (const auto missing = missing_device(options.fabric)) {
    launcher.skip("all by " + options.fabric, *missing);
    return measured;
  }
  for (std::size_t at = 0; at < jobs.size(); ++at) {
    auto tasks = launcher.tasks_of(jobs[at]);
    for (unsigned run = 1; run <= options.run_count(); ++run) {
      for (Task& task : tasks) {
        if (task.job.ways.empty()) continue;
        const TrainingOptions& job = task.job;
        fmt::print(stderr, "{}: job {} of {}, run {} of {}: {} on {} ranks by {}\n", options.name,
                   at + 1, jobs.size(), run, options.run_count(), job.model, job.ranks,
                   fmt::join(job.ways, ", "));
        try {
          for (const RunRow& row : launch_job(task.program, job))
            measured.add({job.model, job.ranks, row.size, row.kind}, 1e6 / row.values.at("step"),
                         row.figures);
        } catch (const std::exception& error) {
          launcher.skip(
              fmt::format("{} on {} ranks by {}", job.model, job.ranks, task.program.name),
              error.what());
          task.job.ways.clear();
        }
      }
      std::ranges::reverse(tasks);  // no program is always first
    }
  }
  return measured;
}

std::string place_text(const ExperimentOptions& options, const std::vector<TrainingOptions>& jobs) {
  std::set<int> ranks;
  for (const TrainingOptions& job : jobs) ranks.insert(job.ranks);
  return fmt::format("{} ranks on {} processors, {}, {} compute, {} runs", fmt::join(ranks, ", "),
                     processors(), options.fabric, options.compute, options.run_count());
}

std::string gain_text(const std::optional<Figure>& ratio) {
  if (!ratio) return "not measured";
  return fmt::format("{:.0f} % (spread {:.0f} %)", 100 * (ratio->median - 1), 100 * ratio->spread);
}

Sheet sheet_of(const ExperimentOptions& options, const Measured& measured) {
  Sheet sheet{.name = options.name,
              .columns = {"model", "ranks", "batch", "way", "steps_per_s", "spread", "low", "high",
                          "over_rpc", "over_rpc_spread", "over_grpc", "over_grpc_spread"}};
  for (const auto& [point, seen] : measured.points()) {
    const auto over = [&](std::string_view way) {
      Point other = point;
      other.way = way;
      return point.way == way ? std::nullopt : measured.ratio(point, other);
    };
    const auto [low, high] = std::ranges::minmax(seen.steps_per_s);
    std::vector<Cell> row{point.model,
                          static_cast<double>(point.ranks),
                          static_cast<double>(point.batch),
                          point.way,
                          median(seen.steps_per_s),
                          spread(seen.steps_per_s),
                          low,
                          high};
    for (const auto& ratio : {over(kRpcWay), over(kGrpcWay)}) {
      row.push_back(ratio ? Cell(ratio->median) : Cell(std::string()));
      row.push_back(ratio ? Cell(ratio->spread) : Cell(std::string()));
    }
    sheet.rows.push_back(std::move(row));
  }
  return sheet;
}

}  // namespace weft::bench
