#include "benchmarks/convergence/fig9_output.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/os/cpus.hpp"
#include "benchmarks/output/picture.hpp"
#include "benchmarks/output/report.hpp"

namespace weft::bench {
namespace {

std::string heading(const Experiment& experiment) {
  const Subject& subject = *experiment.subject;
  const auto& losses = losses_of(experiment);
  const auto reached = target_step(subject, losses);
  return fmt::format(
      "\n{}: {} {} {}\n  losses: {} in all ways; the last {} {:.3g}\n"
      "  paper: {}{}\n",
      subject.name, subject.measure, subject.target,
      reached
          ? fmt::format("is reached in step {}", *reached + 1)
          : fmt::format("is not reached in {} steps: times are of all of them", experiment.steps),
      same_losses(experiment) ? "the same, bit by bit," : "NOT the same", subject.measure,
      recent(subject, losses, losses.size() - 1), subject.paper,
      subject.paper_over_rdma.empty()
          ? ""
          : fmt::format("; {} over gRPC.RDMA", subject.paper_over_rdma));
}

}  // namespace

std::string fig9_table(const std::vector<Experiment>& experiments) {
  std::string text = fmt::format(
      "fig9: loss by time, {} ranks on {} processors; median of {} runs +- its spread\n"
      "ways: views and slots are zero-copy; copies: slots without the analysis; rpc: over weft's "
      "messages, as gRPC.RDMA; grpc: as gRPC.TCP\n",
      kCourseRanks, os::usable_cpus(), experiments.front().ways.front().runs.size());
  for (const Experiment& experiment : experiments) {
    text += heading(experiment);
    const std::string_view best = experiment.ways.front().way;
    text += fmt::format("  {:<8} {:<12} {:>17} {:>9}   {}\n", "way", "fabric", "to the target",
                        "ms/step", fmt::format("time by that of {}", best));
    const auto all = timings(experiment);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const WayRuns& way = experiment.ways[i];
      const double per_step =
          1e3 * median_seconds(way).back() / static_cast<double>(experiment.steps);
      text += fmt::format("  {:<8} {:<12} {:>8.2f} s +- {:>2.0f} % {:>9.2f}   {:.2f} +- {:.2f}{}\n",
                          way.way, way.fabric, all[i].median, 100 * all[i].spread, per_step,
                          all[i].over_best, all[i].over_best * all[i].over_best_spread,
                          way.way == kByGrpc
                              ? fmt::format("   (paper: {:.1f})", experiment.subject->paper_gain)
                              : "");
    }
  }
  return text;
}

void write_fig9_json(const std::string& file, const std::vector<Experiment>& experiments) {
  auto list = nlohmann::json::array();
  for (const Experiment& experiment : experiments) {
    const Subject& subject = *experiment.subject;
    const auto reached = target_step(subject, losses_of(experiment));
    nlohmann::json one{{"example", subject.name},
                       {"measure", subject.measure},
                       {"target", subject.target},
                       {"steps", experiment.steps},
                       {"same_losses", same_losses(experiment)},
                       {"losses", losses_of(experiment)},
                       {"paper",
                        {{"text", subject.paper},
                         {"gain_over_grpc_tcp", subject.paper_gain},
                         {"gain_over_grpc_rdma", subject.paper_over_rdma}}},
                       {"ways", nlohmann::json::array()}};
    one["target_step"] = reached ? nlohmann::json(*reached + 1) : nlohmann::json();
    const auto all = timings(experiment);
    for (std::size_t i = 0; i < all.size(); ++i)
      one["ways"].push_back({{"way", experiment.ways[i].way},
                             {"fabric", experiment.ways[i].fabric},
                             {"seconds_of_runs", all[i].of_runs},
                             {"seconds", all[i].median},
                             {"spread", all[i].spread},
                             {"over_first_way", all[i].over_best},
                             {"over_first_way_spread", all[i].over_best_spread},
                             {"seconds_by_step", median_seconds(experiment.ways[i])}});
    list.push_back(std::move(one));
  }
  const nlohmann::json whole{{"bench", "fig9"},
                             {"ranks", kCourseRanks},
                             {"processors", os::usable_cpus()},
                             {"runs", experiments.front().ways.front().runs.size()},
                             {"examples", list}};
  write_file(file, whole.dump(1) + "\n");
}

void write_fig9_csv(const std::string& file, const std::vector<Experiment>& experiments) {
  std::string text = "example,measure,target,way,fabric,step,seconds,loss,recent\n";
  for (const Experiment& experiment : experiments) {
    const Subject& subject = *experiment.subject;
    const auto& losses = losses_of(experiment);
    for (const WayRuns& way : experiment.ways) {
      const auto seconds = median_seconds(way);
      for (std::size_t step = 0; step < losses.size(); ++step)
        text += fmt::format("{},{},{},{},{},{},{:.6f},{:.9g},{:.6g}\n", subject.name,
                            subject.measure, subject.target, way.way, way.fabric, step + 1,
                            seconds[step], losses[step], recent(subject, losses, step));
    }
  }
  write_file(file, text);
}

void draw_fig9(const std::string& csv_file, const std::string& svg_file) {
  draw_by("weft-bench-plot-losses.py", csv_file, svg_file, "fig9");
}

}  // namespace weft::bench
