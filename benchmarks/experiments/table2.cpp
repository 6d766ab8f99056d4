// Table 2: GPUDirect. The executor keeps tensors in host memory, so no machine can run it yet.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/paper.hpp"

namespace weft::bench {

Sheet run_table2(const ExperimentOptions& options) {
  fmt::print(
      stderr,
      "{}: skipped: it needs GPUs and RDMA devices that reach their memory, and graphs whose "
      "tensors are on GPUs, which the executor does not run\n",
      options.name);
  Sheet sheet{.name = options.name,
              .title = "ms of a step with GPUDirect off and on: the paper's alone"};
  for (const PaperModel& paper : kPaperModels)
    if (options.models.empty() ||
        std::ranges::find(options.models, paper.model) != options.models.end())
      sheet.beside.push_back(
          fmt::format("{}: not measured; the paper, 8 workers: {:.1f} off, "
                      "{:.1f} on",
                      paper.model, paper.without_gpudirect, paper.with_gpudirect));
  return sheet;
}

}  // namespace weft::bench
