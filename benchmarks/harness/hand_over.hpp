// One timed hand-over: tensors go from a sender to its receivers by any means.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "benchmarks/harness/flags.hpp"

namespace weft::bench {

/// Synchronizes the sides with bare flags, alike for weft, the limit and the peers: the sender
/// rewrites its buffers, the receivers prepare, the clock starts, the tensors move, the last
/// receiver acknowledges, the clock stops. Rewriting and preparing are not timed.
class HandOver {
 public:
  /// `theirs` are the sender's receivers, or a receiver's sender.
  HandOver(FlagArea& mine, Partners theirs, Idle idle = kYield) noexcept
      : mine_(mine), theirs_(std::move(theirs)), idle_(idle) {}
  HandOver(FlagArea& mine, const FlagArea& theirs, Idle idle = kYield)
      : HandOver(mine, Partners{&theirs}, idle) {}

  /// Number of hand-overs begun; 1 during the first.
  std::uint64_t number() const noexcept { return number_; }

  /// Sender. Returns the microseconds from the start of `move` to the last acknowledgement.
  template <typename Rewrite, typename Move>
  double send(Rewrite&& rewrite, Move&& move) {
    await_all(theirs_, &FlagArea::inspected, number_++, idle_);
    rewrite();
    raise_to(mine_.filled, number_);
    await_all(theirs_, &FlagArea::ready, number_, idle_);
    const auto start = std::chrono::steady_clock::now();
    move();
    await_all(theirs_, &FlagArea::acknowledged, number_, idle_);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  }

  /// Receiver. `inspect` runs after the acknowledgement; the tensors stay in place until it
  /// returns.
  template <typename Prepare, typename Take, typename Inspect>
  void receive(Prepare&& prepare, Take&& take, Inspect&& inspect) {
    ++number_;
    await_all(theirs_, &FlagArea::filled, number_, idle_);
    prepare();
    raise_to(mine_.ready, number_);
    take();
    raise_to(mine_.acknowledged, number_);
    inspect();
    raise_to(mine_.inspected, number_);
  }

 private:
  FlagArea& mine_;
  Partners theirs_;
  Idle idle_;
  std::uint64_t number_ = 0;
};

}  // namespace weft::bench
