// A reader's gets in captured graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "p2p/slot/attach/graph_calls.hpp"

namespace weft::p2p {

/// How a version comes into a GPU's memory. Neither: it is staged.
struct GetWay {
  bool by_nic = false;     ///< the fabric reads into it
  bool is_mapped = false;  ///< the GPU copies from the owner's memory
};

/// A captured get. The way is constant once it is captured.
struct GraphGet final : GraphCall {
  using GraphCall::GraphCall;

  GetWay way{};
};

/// Made by a reader's first get in a capture. Guarded by the mutex of its StreamGet, but for the
/// port and what is the application's thread's.
struct GraphGets {
  explicit GraphGets(std::function<void()> wake)
      : port(std::make_shared<GraphPort>(std::move(wake))) {}
  GraphGets(const GraphGets&) = delete;
  GraphGets& operator=(const GraphGets&) = delete;
  ~GraphGets() { end_all(); }

  /// The end goes: all streams that wait for their turn go on.
  void end_all() noexcept {
    port->close(Code::closed);
    for (const GraphPort::Run& run : runs)
      port->end(*run.call, run.number, static_cast<std::uint32_t>(Code::closed));
    runs.clear();
  }

  const std::shared_ptr<GraphPort> port;
  std::vector<GraphPort::Run> runs{};  ///< that have begun, and wait for their turn
  bool thread_reads = false;           ///< the next turn is the thread's
  int calls = 0;                       ///< the application's thread's: that read, one in another
};

}  // namespace weft::p2p
