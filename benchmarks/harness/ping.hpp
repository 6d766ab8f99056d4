// A bare flag ping-pong: the least time for a message between two cores.
#pragma once

#include <chrono>
#include <cstdint>

#include "benchmarks/harness/flags.hpp"

namespace weft::bench {

/// One end of a ping-pong on the two ranks' `ping` lines. Each message is one cache line with flag
/// and payload.
class Ping {
 public:
  Ping(FlagArea& mine, const FlagArea& theirs, bool leads, Idle idle = kYield) noexcept
      : mine_(mine.ping), theirs_(theirs.ping), leads_(leads), idle_(idle) {}

  /// Both ends call it with the same number. Returns microseconds one way.
  double run(std::uint32_t round_trips) noexcept {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < round_trips; ++i) leads_ ? (raise(), see()) : (see(), raise());
    const auto spent = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::micro>(spent).count() / round_trips / 2;
  }

  /// True if every payload so far was the one sent.
  bool right() const noexcept { return right_; }

 private:
  void raise() noexcept {
    mine_.payload[0] = ++raised_;
    raise_to(mine_, raised_);
  }
  void see() noexcept {
    await(theirs_, ++seen_, idle_);
    right_ = right_ && theirs_.payload[0] == seen_;
  }

  FlagLine& mine_;
  const FlagLine& theirs_;
  bool leads_;
  Idle idle_;
  std::uint64_t raised_ = 0;
  std::uint64_t seen_ = 0;
  bool right_ = true;
};

}  // namespace weft::bench
