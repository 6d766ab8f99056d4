// A command that runs under watch.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/os/fd.hpp"

namespace weft::tool {

/// A child process. While one lives, SIGINT and SIGTERM of this process go to it.
class Launched {
 public:
  /// Starts it with kMark=`mark` in its environment. Throws Error(system) when it can't be run.
  Launched(std::vector<std::string> command, const std::string& mark);
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  /// One that still runs is told to end, and awaited.
  ~Launched();

  /// The exit status, as a shell has it: 128 + N after signal N. nullopt: it still runs at `until`.
  std::optional<int> wait_until(std::chrono::steady_clock::time_point until);

 private:
  std::optional<int> reap(bool block);

  pid_t pid_ = 0;
  os::Fd pidfd_;
  std::optional<int> status_;
};

}  // namespace weft::tool
