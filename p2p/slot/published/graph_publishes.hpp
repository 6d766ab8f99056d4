// An owner's publications in captured graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "p2p/slot/attach/graph_calls.hpp"

namespace weft::p2p {

/// Made by an owner's first publication in a capture. Guarded by the mutex of its StreamPublishes,
/// but for the port.
struct GraphPublishes {
  explicit GraphPublishes(std::function<void()> wake)
      : port(std::make_shared<GraphPort>(std::move(wake))) {}
  GraphPublishes(const GraphPublishes&) = delete;
  GraphPublishes& operator=(const GraphPublishes&) = delete;
  ~GraphPublishes() { end_all(); }

  /// The end goes: all streams that wait for a buffer go on.
  void end_all() noexcept {
    port->close(Code::closed);
    for (const GraphPort::Run& run : runs)
      port->end(*run.call, run.number, static_cast<std::uint32_t>(Code::closed));
    runs.clear();
  }

  /// Whether runs have begun that have no buffer yet.
  bool are_under_way() const noexcept { return !runs.empty() || port->has_runs(); }

  const std::shared_ptr<GraphPort> port;
  std::vector<GraphPort::Run> runs{};  ///< that have begun, and have no buffer yet
  bool copies_go_on = false;  ///< perhaps, of runs that failed, to buffers that nothing uses now
};

}  // namespace weft::p2p
