// A tool as a user runs it, by a shell.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace weft::tests {

struct ShellOutcome {
  int exit_code = -1;
  std::string output;

  bool has(const std::string& part) const { return output.find(part) != std::string::npos; }
  auto lines() const { return std::count(output.begin(), output.end(), '\n'); }
};

/// Runs a shell command line with no WEFT_ variable but its own. Returns what it wrote to its
/// standard output.
inline ShellOutcome run_shell(const std::string& line) {
  const std::string clean =
      "for v in $(env | sed -n 's/^\\(WEFT_[A-Z_]*\\)=.*/\\1/p'); do unset $v; done; ";
  std::FILE* const pipe = ::popen((clean + line).c_str(), "r");
  if (pipe == nullptr) return {};
  ShellOutcome outcome;
  std::array<char, 4096> chunk{};
  for (std::size_t got = 0; (got = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    outcome.output.append(chunk.data(), got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace weft::tests
