// Versions that become visible once a stream has come to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/slot/published/graph_publishes.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// A publisher's. The application's thread adds versions, the progress thread those of graphs, and
/// publishes them all. Everything requires the mutex, but for `is_used`, which the application's
/// thread changes, and reads without.
struct StreamPublishes {
  struct Version {
    std::uint64_t buffer = 0;  ///< that nothing else uses until poll() has an outcome
    Deadline until{};
    std::unique_ptr<cuda::StreamPoint> after{};  ///< null: `copy` is all that it waits for
    std::optional<cuda::DeviceCopy> copy{};      ///< to the buffer
    bool is_late = false;                        ///< it is not published any more
    std::shared_ptr<GraphCall> graph{};          ///< whose stream waits for the copy; null: none
    bool is_from_call = true;                    ///< false: of a graph
    std::uint64_t run = 0;

    std::optional<Status> poll() noexcept { return copy ? copy->poll() : after->poll(); }
    /// That stream goes on. `code`: 0, or that of the failure.
    void end_run(std::uint32_t code) noexcept {
      if (graph != nullptr) graph->port->end(*graph, run, code);
      graph = nullptr;
    }
  };

  bool is_used = false;  ///< a stream was given: the others look at what follows
  std::mutex mutex{};
  std::vector<Version> versions{};  ///< in their order, with room for one in each buffer
  Status failure{};                 ///< of one of them; the application is to be told
  bool is_served = false;           ///< the progress thread looks
  /// On these the copies go, but for those of graphs.
  std::shared_ptr<cuda::OwnStreams> own = std::make_shared<cuda::OwnStreams>();
  std::unique_ptr<GraphPublishes> graphs{};  ///< null: no graph publishes

  bool uses(std::uint64_t buffer) const noexcept {
    for (const Version& version : versions)
      if (version.buffer == buffer) return true;
    return false;
  }
  /// Whether any waits for its stream, and is to be visible then.
  bool will_publish() const noexcept {
    for (const Version& version : versions)
      if (!version.is_late) return true;
    return false;
  }
  /// Those of calls outside of graphs: each keeps its buffer until its stream has come to it.
  std::size_t from_calls() const noexcept {
    std::size_t count = 0;
    for (const Version& version : versions) count += version.is_from_call ? 1 : 0;
    return count;
  }
  void fail(Status why) noexcept {
    if (failure.ok()) failure = std::move(why);
  }
};

}  // namespace weft::p2p
