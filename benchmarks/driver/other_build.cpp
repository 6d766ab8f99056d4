#include "benchmarks/driver/other_build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kHelpLimit{20};

/// The one line that says why a run has failed: weft-bench's own, or the first in words. A launcher
/// prints many around it.
std::string reason_in(const std::string& errors) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  std::istringstream lines(errors);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("weft-bench: ")) return line;
    if (first.empty() && std::ranges::any_of(line, is_letter)) first = line;
  }
  return first.empty() ? "it said nothing" : first;
}

/// --help lists each benchmark in a line of its own, indented by two.
bool lists(const std::string& help, std::string_view benchmark) {
  return help.find(fmt::format("\n  {} ", benchmark)) != std::string::npos;
}

}  // namespace

std::string weft_bench_of(const std::string& path, std::string_view benchmark) {
  namespace fs = std::filesystem;
  fs::path program;
  for (const fs::path& place :
       {fs::path(path), path / fs::path("weft-bench"), path / fs::path("bin") / "weft-bench"})
    if (program.empty() && fs::is_regular_file(place)) program = fs::absolute(place);
  if (program.empty())
    throw std::runtime_error(fmt::format(
        "--against: {0} is no weft-bench, and has neither weft-bench nor bin/weft-bench; name the "
        "build folder of another version, built with its benchmarks",
        path));
  const Outcome outcome = launch({program.string(), "--help"}, kHelpLimit);
  if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("--against: `{} --help` ended with {}: {}",
                                         program.string(), outcome.exit_code,
                                         reason_in(outcome.errors)));
  if (!lists(outcome.output, benchmark))
    throw std::runtime_error(
        fmt::format("--against: {} has no benchmark {}", program.string(), benchmark));
  return program.string();
}

std::vector<RunRow> rows_of_other_build(const std::string& program, const Outcome& outcome) {
  if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("--against: a run of {} ended with {}: {}", program,
                                         outcome.exit_code, reason_in(outcome.errors)));
  try {
    return rows_in(outcome.output);
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("--against: {} prints its rows in another form than this build: {}", program,
                    error.what()));
  }
}

}  // namespace weft::bench
