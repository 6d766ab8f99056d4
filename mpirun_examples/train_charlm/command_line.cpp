#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace charlm {

bool parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; --help lists the options", error.what()));
  }
  return true;
}

int shared_batch(std::optional<int> batch, int usual, int ranks) {
  if (!batch) return (usual + ranks - 1) / ranks * ranks;
  const int below = *batch / ranks * ranks;
  if (below == *batch) return *batch;
  throw UsageError(fmt::format(
      "--batch {} cannot be shared equally by {} ranks; try {}", *batch, ranks,
      below > 0 ? fmt::format("{} or {}", below, below + ranks) : fmt::format("{}", ranks)));
}

}  // namespace charlm
