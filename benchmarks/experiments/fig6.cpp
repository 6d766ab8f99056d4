// Figure 6: how large the models' variables are.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "benchmarks/experiments/distribution.hpp"
#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/workloads/models.hpp"

namespace weft::bench {
namespace {

std::vector<std::size_t> sizes_of(const std::vector<std::string>& names) {
  std::vector<std::size_t> sizes;
  for (const Model& model : models())
    if (names.empty() || std::ranges::find(names, model.name) != names.end())
      for (std::size_t i = 0; i < model.shapes.size(); ++i)
        sizes.push_back(model.elements(i) * sizeof(float));
  return sizes;
}

}  // namespace

std::vector<Share> shares_above(std::vector<std::size_t> sizes) {
  std::ranges::sort(sizes);
  const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  std::vector<Share> shares{{0, 1, 1}};
  double below = 0;
  for (std::size_t i = 0; i < sizes.size();) {
    const std::size_t size = sizes[i];
    for (; i < sizes.size() && sizes[i] == size; ++i) below += static_cast<double>(size);
    shares.push_back({size,
                      static_cast<double>(sizes.size() - i) / static_cast<double>(sizes.size()),
                      (all - below) / all});
  }
  return shares;
}

Share share_above(const std::vector<std::size_t>& sizes, std::size_t size) {
  const auto shares = shares_above(sizes);
  const auto next = std::ranges::upper_bound(shares, size, std::less(), &Share::size);
  return *std::prev(next);
}

Sheet run_fig6(const ExperimentOptions& options) {
  const std::vector<std::size_t> sizes = sizes_of(options.models);
  Sheet sheet{.name = options.name,
              .title = fmt::format("{} variables, by size: the share of those that are larger, and "
                                   "of their bytes",
                                   sizes.size()),
              .columns = {"line", "bytes", "share"}};
  for (const Share& share : shares_above(sizes))
    if (share.size > 0) {
      const auto size = static_cast<double>(share.size);
      sheet.rows.push_back({"variables", size, share.of_count});
      sheet.rows.push_back({"bytes", size, share.of_bytes});
    }
  const Share small = share_above(sizes, 10 << 10);
  const Share large = share_above(sizes, 1 << 20);
  sheet.beside = {
      fmt::format("above 10 KiB: {:.1f} % of the variables; the paper: more than 50 %",
                  100 * small.of_count),
      fmt::format("above 1 MiB: {:.1f} % of the variables, with {:.1f} % of the bytes; the paper: "
                  "more than 20 %, with 96 %",
                  100 * large.of_count, 100 * large.of_bytes)};
  sheet.drawing = Drawing{.line = "line",
                          .x = "bytes",
                          .y = "share",
                          .x_label = "size of a variable, bytes",
                          .y_label = "share above this size",
                          .log_x = true};
  return sheet;
}

}  // namespace weft::bench
