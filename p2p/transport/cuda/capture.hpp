// Streams of the application's that capture a graph, and what graphs keep.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "p2p/transport/cuda/user_stream.hpp"

namespace weft::p2p::cuda {

class Gpus;

/// A stream that is part of a capture. Valid until that ends.
struct Capture {
  UserStream stream;
  std::uint64_t id = 0;  ///< one for all streams of the capture, and no other's
  Graph graph = nullptr;
};

/// The capture that a stream of the application's is part of; nullopt: none, or the call with the
/// stream itself says what is wrong. `memory`: where the tensor lies; the host's: any GPU's stream
/// will do. Throws Error: bad_argument (the capture has failed, a stream of another GPU), system.
std::optional<Capture> capture_of(Gpus& gpus, const char* operation, Stream stream, Memory memory);

/// Has the capture's graph keep `what` until the graph, and all executables that were made of it,
/// are gone and work no more. reap_graphs() lets go of it then. Throws Error(system),
/// std::bad_alloc.
void keep_by_graph(const Capture& capture, const char* operation, std::shared_ptr<void> what);

/// Lets go of what was kept by graphs that are gone: the driver tells of them where nothing may be
/// freed. Any thread, outside of weft's locks.
void reap_graphs() noexcept;

}  // namespace weft::p2p::cuda
