// How weft's tools refuse a command line: one line that names the wrong argument, and exit code 2.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

namespace weft::tool {

inline constexpr int kBadUse = 2;

/// Ends a tool whose command line has not been parsed: prints the help or the version if that was
/// asked for, otherwise the reason. Returns the exit code.
inline int end_parse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::string why = error.what();
  // A mistyped option or subcommand is often why something required seems to be missing.
  const bool may_hide_a_typo = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                               dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (const auto unknown = app.remaining(true); may_hide_a_typo && !unknown.empty()) {
    const auto option = std::ranges::find_if(
        unknown, [](const auto& word) { return word.starts_with('-') && word != "--"; });
    why = "The following argument was not expected: " +
          (option == unknown.end() ? unknown.front() : *option);
  }
  std::fprintf(stderr, "%s: %s; see %s --help\n", app.get_name().c_str(), why.c_str(),
               app.get_name().c_str());
  return kBadUse;
}

}  // namespace weft::tool
