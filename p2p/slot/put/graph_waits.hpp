// An owner's waits and releases in captured graphs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "p2p/slot/attach/graph_calls.hpp"

namespace weft::p2p {

/// A number that one thread at a time changes, and that others may read.
class SharedNumber {
 public:
  explicit SharedNumber(std::uint64_t value) noexcept : value_(value) {}
  operator std::uint64_t() const noexcept { return value_.load(std::memory_order_relaxed); }
  SharedNumber& operator=(std::uint64_t value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }

 private:
  std::atomic<std::uint64_t> value_;
};

/// Made by an owner's first wait in a capture. Guarded by the mutex of its StreamArrivals, but for
/// the port.
struct GraphWaits {
  explicit GraphWaits(std::function<void()> wake)
      : port(std::make_shared<GraphPort>(std::move(wake))) {}
  GraphWaits(const GraphWaits&) = delete;
  GraphWaits& operator=(const GraphWaits&) = delete;
  ~GraphWaits() { end_all(); }

  /// The end goes: all streams that wait for no tensor yet go on.
  void end_all() noexcept {
    port->close(Code::closed);
    for (const GraphPort::Run& run : runs)
      port->end(*run.call, run.number, static_cast<std::uint32_t>(Code::closed));
    runs.clear();
  }

  /// Whether runs have begun that no tensor is taken for.
  bool are_under_way() const noexcept { return !runs.empty() || port->has_runs(); }

  const std::shared_ptr<GraphPort> port;
  std::vector<std::shared_ptr<GraphCall>> held{};  ///< of Arrivals that the application has
  std::vector<GraphPort::Run> runs{};  ///< waits that have begun, and that no tensor is taken for
  bool thread_waits = false;           ///< the next tensors are the thread's
  bool any_late = false;               ///< a run's time was over meanwhile
};

}  // namespace weft::p2p
