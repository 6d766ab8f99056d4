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

/// Kept by graphs, through handles of handle_of(). It may hold the last handle of a GPU, of a
/// world's memory, or of memory whose deleter is the user's. So it is deleted by reap_graphs()
/// alone, while its own handles may go anywhere.
class KeptByGraph {
 public:
  KeptByGraph() = default;
  KeptByGraph(const KeptByGraph&) = delete;
  KeptByGraph& operator=(const KeptByGraph&) = delete;
  virtual ~KeptByGraph() = default;

  /// The last handle has gone. On any thread, under any lock but a GraphPort's: frees no memory of
  /// a GPU's, and makes no call of the driver.
  virtual void on_last_handle() noexcept = 0;
  /// Whether its world is there, so that no GPU and no arena goes with it.
  virtual bool is_at_home() const noexcept = 0;

  KeptByGraph* next = nullptr;  ///< in the list of those without handles
};

/// Adds one without handles to those that reap_graphs() deletes. Any thread.
void reap_later(KeptByGraph* one) noexcept;

/// Throws std::bad_alloc.
template <typename Kept>
std::shared_ptr<Kept> handle_of(std::unique_ptr<Kept> kept) {
  return std::shared_ptr<Kept>(kept.release(), [](Kept* one) {
    one->on_last_handle();
    reap_later(one);
  });
}

/// Has the capture's graph keep `what` until the graph, and all executables that were made of it,
/// are gone and work no more. take_from_graphs() lets go of the handle then. Throws Error(system),
/// std::bad_alloc.
void keep_by_graph(const Capture& capture, const char* operation,
                   std::shared_ptr<KeptByGraph> what);

/// Lets go of the handles of graphs that are gone: the driver tells of them where nothing may be
/// freed. Any thread, also under weft's locks.
void take_from_graphs() noexcept;

/// The same, and deletes those without handles. One that may take a GPU or an arena with it, which
/// waits for all streams, stays for a later call while a stream of the process waits for weft. The
/// application's threads, outside of weft's locks.
void reap_graphs() noexcept;

}  // namespace weft::p2p::cuda
