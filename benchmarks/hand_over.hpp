// One timed hand-over: some tensors go from a sender to a receiver, whatever carries them.
#pragma once

#include <chrono>
#include <cstdint>

#include "benchmarks/flags.hpp"

namespace weft::bench {

/// Keeps the two sides in step with bare flags, the same for weft, for the limit and for the peers:
/// the sender rewrites its buffers, the receiver gets ready, the clock starts, the tensors move,
/// the receiver acknowledges, the clock stops. Rewriting and getting ready are not timed.
class HandOver {
 public:
  HandOver(FlagArea& mine, const FlagArea& theirs, Idle idle = kYield) noexcept
      : mine_(mine), theirs_(theirs), idle_(idle) {}

  /// Counts the hand-overs begun: 1 with the first.
  std::uint64_t number() const noexcept { return number_; }

  /// Sender. Returns the microseconds from the start of `move` to the acknowledgement.
  template <typename Rewrite, typename Move>
  double send(Rewrite&& rewrite, Move&& move) {
    ++number_;
    rewrite();
    raise_to(mine_.filled, number_);
    await(theirs_.ready, number_, idle_);
    const auto start = std::chrono::steady_clock::now();
    move();
    await(theirs_.acknowledged, number_, idle_);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  }

  /// Receiver. `inspect` runs after the acknowledgement, while the tensors are still in place.
  template <typename Prepare, typename Take, typename Inspect>
  void receive(Prepare&& prepare, Take&& take, Inspect&& inspect) {
    ++number_;
    await(theirs_.filled, number_, idle_);
    prepare();
    raise_to(mine_.ready, number_);
    take();
    raise_to(mine_.acknowledged, number_);
    inspect();
  }

 private:
  FlagArea& mine_;
  const FlagArea& theirs_;
  Idle idle_;
  std::uint64_t number_ = 0;
};

}  // namespace weft::bench
