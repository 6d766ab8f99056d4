// A writer's puts in captured graphs, and streams that wait for their ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "p2p/slot/attach/graph_calls.hpp"

namespace weft::p2p {

/// Made by a writer's first put in a capture. Guarded by the pending puts' mutex, but for the port.
/// Pointers to it stay valid as long as the writer's end.
struct GraphPuts {
  struct UnderWay {
    GraphPort::Run run;
    std::uint64_t ticket = 0;  ///< of the pending put
  };
  /// Runs that are pending puts at once, so that the application's own have room.
  static constexpr std::size_t kMostUnderWay = 32;
  /// Set in the tickets of requests for captured puts, beside the call's id.
  static constexpr std::uint64_t kOfGraph = std::uint64_t{1} << 62;
  static constexpr bool is_of_graph(std::uint64_t ticket) noexcept { return ticket >> 62 == 1; }

  explicit GraphPuts(std::function<void()> wake)
      : port(std::make_shared<GraphPort>(std::move(wake))) {}
  GraphPuts(const GraphPuts&) = delete;
  GraphPuts& operator=(const GraphPuts&) = delete;
  ~GraphPuts() { end_all(); }

  /// The end goes: all streams go on.
  void end_all() noexcept {
    port->close(Code::closed);
    for (const GraphPort::Run& run : puts) port->end(*run.call, run.number, 0);
    for (const UnderWay& one : under_way) port->end(*one.run.call, one.run.number, 0);
    for (const GraphPort::Run& run : ends) port->end(*run.call, run.number, 0);
    for (const GraphPort::Run& run : taken)
      if (run.call != nullptr) port->end(*run.call, run.number, 0);
    puts.clear();
    under_way.clear();
    ends.clear();
    taken.clear();
  }

  const std::shared_ptr<GraphPort> port;
  std::vector<std::weak_ptr<GraphCall>> calls{};  ///< puts whose graphs are there
  std::uint64_t last_id = 0;                      ///< of them
  std::vector<GraphPort::Run> taken{};
  std::vector<GraphPort::Run> puts{};  ///< that have begun, and are no pending puts yet
  std::vector<UnderWay> under_way{};
  std::vector<GraphPort::Run> ends{};  ///< streams that wait for the end of a put
  bool are_under_way() const noexcept {
    return !puts.empty() || !under_way.empty() || !ends.empty() || !taken.empty() ||
           port->has_runs();
  }
  bool is_closed = false;
};

}  // namespace weft::p2p
