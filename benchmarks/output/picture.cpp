#include "benchmarks/output/picture.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "benchmarks/driver/launch.hpp"

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kLimit{120};
/// Exit status of the scripts where matplotlib is missing.
constexpr int kSkipped = 77;

}  // namespace

void run_plot(const std::string& script, std::vector<std::string> words,
              const std::string& csv_file, const std::string& svg_file) {
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / script;
  const auto python = find_program({"python3"});
  if (!python) {
    fmt::print(stderr, "left out: {}: no python3 on PATH; its rows are in {}\n", svg_file,
               csv_file);
    return;
  }
  words.insert(words.begin(), {*python, file.string()});
  const Outcome outcome = launch(words, kLimit);
  if (outcome.exit_code == kSkipped)
    fmt::print(stderr, "left out: {}: {}", svg_file, outcome.errors);
  else if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("drawing {} failed: {}", svg_file, outcome.errors));
}

void draw(const std::string& csv_file, const std::string& svg_file, const std::string& benchmark) {
  draw_by("weft-bench-plot.py", csv_file, svg_file, benchmark);
}

void draw_by(const std::string& script, const std::string& csv_file, const std::string& svg_file,
             const std::string& benchmark) {
  run_plot(script, {csv_file, svg_file, "--title", benchmark}, csv_file, svg_file);
}

}  // namespace weft::bench
