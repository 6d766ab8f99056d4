// One timed hand-over: some tensors go from a sender to its receivers, whatever carries them.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "benchmarks/harness/flags.hpp"

namespace weft::bench {

/// Keeps the sides in step with bare flags, the same for weft, for the limit and for the peers: the
/// sender rewrites its buffers, the receivers get ready, the clock starts, the tensors move, the
/// last receiver acknowledges, the clock stops. Rewriting and getting ready are not timed.
class HandOver {
 public:
  /// `theirs`: the sender's receivers, or a receiver's sender.
  HandOver(FlagArea& mine, Partners theirs, Idle idle = kYield) noexcept
      : mine_(mine), theirs_(std::move(theirs)), idle_(idle) {}
  HandOver(FlagArea& mine, const FlagArea& theirs, Idle idle = kYield)
      : HandOver(mine, Partners{&theirs}, idle) {}

  /// Counts the hand-overs begun: 1 with the first.
  std::uint64_t number() const noexcept { return number_; }

  /// Sender. Returns the microseconds from the start of `move` to the acknowledgement.
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

  /// Receiver. `inspect` runs after the acknowledgement; the tensors stay in place until it ends.
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
