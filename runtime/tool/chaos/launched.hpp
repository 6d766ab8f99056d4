// Runs a command as a child process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/os/fd.hpp"

namespace weft::tool {

/// A child process. As long as the object lives, SIGINT and SIGTERM of this process are forwarded
/// to the child.
class Launched {
 public:
  /// Starts `command` with kMark=`mark` in its environment. Throws Error(system) if that fails.
  Launched(std::vector<std::string> command, const std::string& mark);
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  /// Sends SIGTERM to a child that still runs, and waits for its end.
  ~Launched();

  /// Waits until `until`. Returns the exit status as a shell does (128 + N after signal N), or
  /// nullopt if the child still runs.
  std::optional<int> wait_until(std::chrono::steady_clock::time_point until);

 private:
  std::optional<int> reap(bool block);

  pid_t pid_ = 0;
  os::Fd pidfd_;
  std::optional<int> status_;
};

}  // namespace weft::tool
