// Edges of a graph by remote procedure calls over weft's own messages.
#pragma once

#include <memory>

#include "runtime/dataflow/execute/edge_ends.hpp"

namespace weft::bench {

/// The receiver calls for each tensor; the producer answers. Both ends have private buffers of a
/// bounded size, as RPC libraries do: the tensor is copied into the producer's piece by piece, each
/// piece is a message, and is copied out of the receiver's. A shape that changes is a message
/// before them. The executor's threads take turns with the messages.
std::unique_ptr<dataflow::Way> make_rpc_way(World& world);

}  // namespace weft::bench
