// A fabric as small as it gets: ranks are threads of one process and copy into each other's memory.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "p2p/transport/fabric.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/remote_chunks.hpp"

namespace weft::toy {

/// Its lines are the measure of the seam: this header and toy_fabric.cpp, 263 lines together, are
/// all that a fabric needs to pass the conformance suite. The other fabrics add what their network
/// asks for: connecting, authentication, queues, failures.
///
/// What lies between the ranks of a job. Thread-safe.
class ToyNetwork {
 public:
  explicit ToyNetwork(int size);

  /// The way from one rank to another. Closed once either end has gone or fenced the other.
  struct Path {
    Path(int from_rank, int to_rank) : from(from_rank), to(to_rank), known(to_rank) {}

    const int from;
    const int to;
    p2p::RemoteChunks known;  ///< chunks of `to` that `from` may name
    std::mutex mutex;         ///< held while `from` writes
    bool is_closed = false;
    bool is_ready = false;  ///< `from` has asked to connect; the network's lock guards it
  };
  Path& path(int from, int to) { return *paths_[static_cast<std::size_t>(from * size_ + to)]; }

  void attach(p2p::LocalRank& local, p2p::FabricEvents& events);
  /// The rank goes: its peers lose it once they have had its messages.
  void detach(int rank) noexcept;
  void connect(int from, int to);
  void close(int a, int b);
  /// On the progress thread of `rank`, after what was posted there before.
  void post(int rank, std::function<void(p2p::FabricEvents&)> act);
  void ring(int rank) noexcept;

  /// All fabrics of a rank: this one alone. The network must outlive the rank's world.
  p2p::MakeFabrics fabrics();

 private:
  struct Side {
    p2p::LocalRank* local = nullptr;
    p2p::FabricEvents* events = nullptr;
    bool is_gone = false;
  };
  Side& side(int rank) { return sides_[static_cast<std::size_t>(rank)]; }

  const int size_;
  std::recursive_mutex mutex_;
  std::vector<Side> sides_;
  std::vector<std::unique_ptr<Path>> paths_;
};

}  // namespace weft::toy
