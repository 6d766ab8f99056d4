// A test program as one rank: its exit status is 0 if all checks held; otherwise it prints those
// that failed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "weft/world.hpp"

namespace weft::tests {

/// The failures on this rank. Thread-safe.
class Checks {
 public:
  explicit Checks(int rank) : rank_(rank) {}

  void expect(bool holds, const std::string& what) {
    if (holds) return;
    ++failures_;
    std::fprintf(stderr, "rank %d failed: %s\n", rank_, what.c_str());
  }
  bool passed() const { return failures_ == 0; }

 private:
  int rank_;
  std::atomic<int> failures_{0};
};

/// Joins, runs `body`, leaves. Returns the exit status of the rank.
inline int run_as_rank(const std::function<void(World&, Checks&)>& body) {
  int rank = -1;
  try {
    World world = World::join();
    rank = world.rank();
    Checks checks(rank);
    body(world, checks);
    const auto left = world.leave(Deadline::after(std::chrono::seconds(20)));
    checks.expect(left.ok(), "leave: " + left.text());
    return checks.passed() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d failed: %s\n", rank, error.what());
    return 1;
  }
}

/// As run_as_rank(), where other ranks die: `body` may end with an error only if it must, the rank
/// leaves as well as it can, and says that it survived.
inline int run_as_survivor(const std::function<void(World&, Checks&)>& body) {
  World world = World::join();
  Checks checks(world.rank());
  try {
    body(world, checks);
  } catch (const std::exception& error) {
    checks.expect(false, error.what());
  }
  (void)world.leave(Deadline::after(std::chrono::seconds(10)));
  if (checks.passed()) std::printf("rank %d survived\n", world.rank());
  return checks.passed() ? 0 : 1;
}

}  // namespace weft::tests
