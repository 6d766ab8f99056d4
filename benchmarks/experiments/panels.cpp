#include "benchmarks/experiments/panels.hpp"

#include <vector>

#include "benchmarks/output/picture.hpp"

namespace weft::bench {

void draw_panels(const std::string& csv_file, const std::string& svg_file, const std::string& title,
                 const Drawing& drawing) {
  std::vector<std::string> words{csv_file, svg_file, "--title", title};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--panel", drawing.panel);
  add("--line", drawing.line);
  add("--x", drawing.x);
  add("--y", drawing.y);
  add("--low", drawing.low);
  add("--high", drawing.high);
  add("--x-label", drawing.x_label);
  add("--y-label", drawing.y_label);
  if (drawing.log_x) words.emplace_back("--log-x");
  if (drawing.log_y) words.emplace_back("--log-y");
  run_plot("weft-bench-panels.py", words, csv_file, svg_file);
}

}  // namespace weft::bench
