#include "benchmarks/output/picture.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "benchmarks/driver/launch.hpp"

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kLimit{120};
/// Exit status of benchmarks/output/plot.py where matplotlib is missing.
constexpr int kSkipped = 77;

}  // namespace

void draw(const std::string& csv_file, const std::string& svg_file, const std::string& benchmark) {
  const auto script =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "weft-bench-plot.py";
  const auto python = find_program({"python3"});
  if (!python) {
    fmt::print(stderr, "left out: {}: no python3 on PATH; its rows are in {}\n", svg_file,
               csv_file);
    return;
  }
  const Outcome outcome =
      launch({*python, script.string(), csv_file, svg_file, "--title", benchmark}, kLimit);
  if (outcome.exit_code == kSkipped)
    fmt::print(stderr, "left out: {}: {}", svg_file, outcome.errors);
  else if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("drawing {} failed: {}", svg_file, outcome.errors));
}

}  // namespace weft::bench
