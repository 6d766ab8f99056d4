// weft-bench: what weft's transfers cost, beside the machine's limit and beside MPI.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#if defined(WEFT_HAS_OPERATORS)
#include "benchmarks/convergence/fig9.hpp"
#endif
#include "benchmarks/driver/catalogue.hpp"
#include "benchmarks/driver/driver.hpp"
#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/fig7.hpp"
#include "benchmarks/limits/bare_gpu.hpp"
#include "benchmarks/output/against.hpp"
#include "benchmarks/output/checks.hpp"
#include "benchmarks/output/layouts.hpp"
#include "benchmarks/output/picture.hpp"
#include "benchmarks/output/report.hpp"
#include "benchmarks/workloads/training_run.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace {

using namespace weft::bench;

std::size_t size_of_word(const std::string& word) {
  const auto size = weft::parse_size(word);
  if (!size || *size == 0)
    throw CLI::ValidationError("--sizes", "'" + word + "' is no size; use 8, 64k, 4m");
  return *size;
}

std::string text_of(const Plan& plan, const std::string& layout, const std::vector<Row>& rows,
                    const Machine& machine) {
  const std::string& name = plan.run.benchmark;
  if (layout == "osu") return osu_layout(name, rows);
  if (layout == "nccl") return nccl_layout(name, rows, plan.run.check);
  return name == kChecks ? verdicts(rows) : table(name, rows, machine);
}

void write_rows(const std::string& json_file, const std::string& csv_file, const Plan& plan,
                const std::vector<Row>& rows, const Machine& machine) {
  if (!csv_file.empty()) write_csv(csv_file, rows, machine);
  if (!json_file.empty()) write_json(json_file, plan.run.benchmark, rows, machine);
}

int drive(int argc, char** argv) {
  Plan plan;
  std::string json_file;
  std::string csv_file;
  std::string svg_file;
  std::string layout = "table";
  std::vector<std::string> sizes;
  CLI::App app{"Measures weft between ranks of this machine, beside bare memory and MPI"};
  app.footer("Benchmarks: one operation, and its limit in the same run\n" + help_text() +
             "Experiments of the paper, each with a --help of its own\n" + experiments_text() +
             "  fig9        loss by time of three trainings, by each way of their tensors\n");
  std::vector<std::string> names;
  for (const Description& benchmark : catalogue()) names.emplace_back(benchmark.name);
  app.add_option("benchmark", plan.run.benchmark, "one of the list below")
      ->check(CLI::IsMember(names));
  app.add_flag("--quick", plan.quick, "fewer sizes and shorter runs: under 40 s");
  app.add_option("--json", json_file, "write the rows to this file as JSON");
  app.add_option("--csv", csv_file, "write them as comma-separated values");
  app.add_option("--layout", layout, "table, osu (size, latency) or nccl (collectives)")
      ->check(CLI::IsMember({"table", "osu", "nccl"}));
  app.add_option("--svg", svg_file, "draw the rows into this file: time by size, by matplotlib");
  app.add_option("--against", plan.against,
                 "another build of weft, whose runs alternate with this one's: its build folder");
  app.add_flag("-c,--check", plan.run.check, "check the data of a sample of operations");
  app.add_option("--sizes", sizes, "bytes of a tensor, e.g. 8,64k,4m")->delimiter(',');
  app.add_option("--pairs", plan.pairs, "runs of each program")->check(CLI::Range(1U, 1000U));
  app.add_option("--peers,--vs", plan.peers,
                 "openmpi,mpich (latency, put-bw, pushpull, collectives), gloo (collectives), "
                 "grpc (fig7, graph_replay, ps_dense, ps_replay, ps_sparse), zeromq (ps_dense, "
                 "ps_group, ps_replay), "
                 "iperf3 (wire), perftest (rdma) or none")
      ->delimiter(',')
      ->check(CLI::IsMember(
          {"openmpi", "mpich", "gloo", "grpc", "zeromq", "iperf3", "perftest", "none"}));
  app.add_option("--fabric", plan.fabric, "that weft's ranks use, as WEFT_FABRIC names it");
  app.add_option("--readers", plan.readers, "numbers of readers, 1 to 7 (publish)")->delimiter(',');
  app.add_option("--ranks", plan.ranks, "numbers of ranks, 2 to 64 (collectives)")->delimiter(',');
  try {
    app.parse(argc, argv);
    const bool beside_perftest = plan.peers == std::vector<std::string>{"perftest"};
    if (plan.run.benchmark.empty() && beside_perftest) plan.run.benchmark = kRdma;
    if (plan.run.benchmark.empty()) throw CLI::RequiredError("benchmark");
    for (const std::string& word : sizes) plan.run.sizes.push_back(size_of_word(word));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    throw BadOption(error.what());
  }

  if (plan.run.benchmark == kGpu)
    if (const auto why = no_gpu()) {
      fmt::print("gpu: skipped: {}\n", *why);
      Row skipped;
      skipped.kind = "skipped: no GPU";
      write_rows(json_file, csv_file, plan, {skipped}, machine_of_runs());
      return 0;
    }
  const Results results = run(plan);
  const Machine machine = machine_of_runs();
  auto rows = summarise(results);
  const bool checks = plan.run.benchmark == kChecks;
  if (checks) judge(rows);
  fmt::print("{}", text_of(plan, layout, rows, machine));
  if (plan.run.benchmark == kTransfer && layout == "table") fmt::print("{}", fig7_text(rows));
  if (!plan.against.empty()) fmt::print("{}", against_text(plan.against, rows));
  // A picture is drawn from its CSV, which stays beside it.
  if (csv_file.empty() && !svg_file.empty())
    csv_file = std::filesystem::path(svg_file).replace_extension(".csv").string();
  write_rows(json_file, csv_file, plan, rows, machine);
  if (!svg_file.empty()) draw(csv_file, svg_file, plan.run.benchmark);
  return checks && any_slower(rows) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && std::string_view(argv[1]) == "fig9") {
#if defined(WEFT_HAS_OPERATORS)
    return run_fig9(argc - 1, argv + 1);
#else
    throw std::runtime_error("fig9 needs weft's kernels: install libdnnl-dev and build again");
#endif
  }
  if (is_training(argc, argv)) return train(parse_training(argc, argv));
  if (argc > 1 && experiment_called(argv[1]) != nullptr) return run_experiment(argc, argv);
  const bool is_worker = argc > 1 && std::string_view(argv[1]) == "--worker";
  return is_worker ? work(parse_run(argc, argv)) : drive(argc, argv);
} catch (const weft::bench::BadOption& error) {
  fmt::print(stderr, "weft-bench: {}\n", error.what());
  return 2;
} catch (const std::exception& error) {
  fmt::print(stderr, "weft-bench: {}\n", error.what());
  return 1;
}
