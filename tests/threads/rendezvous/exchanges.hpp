// Common parts of the rendezvous tests: tensors that say what they hold, and a record of messages.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"
#include "weft/rendezvous.hpp"
#include "weft/world.hpp"

namespace weft::tests {

inline Tensor filled(World& world, DType dtype, const Shape& shape, int from, std::uint64_t step) {
  Tensor tensor = world.allocate(dtype, shape);
  fill(tensor, pattern_of(from, 0, step));
  return tensor;
}

/// The cost of one end of an exchange with `peer`.
inline TransferCounters exchange_cost(const World& world, int peer, Role role) {
  for (const auto& edge : world.report().edges)
    if (edge.slot == "rendezvous.default" && edge.peer == peer && edge.role == role)
      return edge.counters;
  return {};
}

/// The messages of one session as both ends saw them, in their order: a sent message is noted
/// before it can be received.
class Record {
 public:
  /// For the RendezvousSpec of `rank`; only its session with `peer`.
  auto of(int rank, int peer) {
    return [this, rank, peer](const RendezvousEvent& event) {
      if (event.peer != peer || event.message == RendezvousMessage::hello) return;
      std::string line = std::to_string(rank) + (event.sent ? " sends " : " gets ");
      line += name(event.message);
      if (!event.key.empty())
        line += " " + std::string(event.key) + "#" + std::to_string(event.step);
      if (event.by_name) line += " by name";
      if (event.with_metadata) line += " with place";
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::move(line));
    };
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }
  /// The messages recorded since the last call.
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace weft::tests
