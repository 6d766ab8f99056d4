// Edges of a graph by remote procedure calls over weft's own messages.
#pragma once

#include <memory>

#include "runtime/dataflow/execute/edge_ends.hpp"

namespace weft::bench {

/// The receiver calls for each tensor; the producer answers with a message of protobuf. Both ends
/// have private buffers of a bounded size, as RPC libraries do: the message is serialized into the
/// producer's piece by piece, each piece is a message of weft's, and is parsed out of the
/// receiver's. The executor's threads take turns with the messages.
/// Without protobuf it throws Error(system).
std::unique_ptr<dataflow::Way> make_rpc_way(World& world);

}  // namespace weft::bench
