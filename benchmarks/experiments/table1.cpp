// Table 1: the models. Bytes and variables are counted in their graphs.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/paper.hpp"
#include "benchmarks/workloads/training.hpp"

namespace weft::bench {
namespace {

struct Counted {
  std::size_t variables = 0;
  std::size_t bytes = 0;
};

Counted count(const dataflow::Graph& graph) {
  Counted counted;
  for (const dataflow::Node& node : graph.nodes())
    if (node.definition->name == "weft.Variable") {
      ++counted.variables;
      counted.bytes +=
          static_cast<std::size_t>(node.outputs[0].shape.shape().elements()) * sizeof(float);
    }
  return counted;
}

}  // namespace

Sheet run_table1(const ExperimentOptions& options) {
  Sheet sheet{.name = options.name,
              .title =
                  "the models as graphs: MiB, variables, and replayed ms of a sample, beside "
                  "the paper's",
              .columns = {"model", "mib", "paper_mib", "variables", "paper_variables", "sample_ms",
                          "paper_sample_ms", "multiplications_e9"}};
  bool all_alike = true;
  for (const Model& model : models()) {
    if (!options.models.empty() &&
        std::ranges::find(options.models, model.name) == options.models.end())
      continue;
    const ReplayedTraining training(model, 1);
    const Counted counted = count(training.graph());
    double ms = 0;
    for (const LayerTime& time : layer_times(model, 1)) ms += time.forward_ms + time.backward_ms;
    double multiplications = 0;
    for (const Layer& layer : layers_of(model)) multiplications += layer.multiplications;
    const PaperModel& paper = *paper_of(model.name);
    const std::string mib = fmt::format("{:.2f}", static_cast<double>(counted.bytes) / (1 << 20));
    const std::string sample_ms = fmt::format("{:.2f}", ms);
    all_alike = all_alike && mib == paper.megabytes && sample_ms == paper.sample_ms &&
                counted.variables == static_cast<std::size_t>(paper.variables);
    sheet.rows.push_back({std::string(model.name), mib, std::string(paper.megabytes),
                          static_cast<double>(counted.variables),
                          static_cast<double>(paper.variables), sample_ms,
                          std::string(paper.sample_ms), multiplications / 1e9});
  }
  sheet.beside = {all_alike ? "all figures are the paper's, to the last digit"
                            : "some figures are not the paper's"};
  sheet.drawing =
      Drawing{.x = "model", .y = "mib", .x_label = "model", .y_label = "variables, MiB"};
  return sheet;
}

}  // namespace weft::bench
