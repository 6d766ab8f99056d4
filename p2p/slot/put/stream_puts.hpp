// Streams of the application's that wait for the ends of puts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "p2p/slot/put/graph_puts.hpp"
#include "p2p/transport/cuda/user_stream.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// A writer's, made by its first put with a stream, or wait of one. Guarded by the pending puts'
/// mutex.
struct StreamPuts {
  struct Waiting {
    std::uint64_t ticket = 0;
    Deadline until{};
    cuda::StreamWait wait{};
  };

  /// On these its copies go, so that they hold up no others.
  std::shared_ptr<cuda::OwnStreams> own = std::make_shared<cuda::OwnStreams>();
  std::vector<Waiting> waiting{};
  Status failure{};  ///< of a put that a stream waited for; the application is to be told
  std::unique_ptr<GraphPuts> graphs{};  ///< null: no graph has puts
};

}  // namespace weft::p2p
