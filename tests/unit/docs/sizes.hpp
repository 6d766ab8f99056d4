// The sizes that docs/scaling.md computes with.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::docs {

/// Sizes in bytes.
struct Sizes {
  std::size_t address = 0;  ///< RankAddress
  std::size_t cpus = 0;     ///< of it, the processors
  std::size_t peer = 0;
  std::size_t link = 0;
  std::size_t channel = 0;         ///< ShmChannel
  std::size_t partner = 0;         ///< ShmFabric's
  std::size_t slot = 0;            ///< PutOwner
  std::size_t published_slot = 0;  ///< Publisher
  std::size_t attachment = 0;
  std::size_t remote_slot = 0;  ///< PutWriter
  std::size_t reader = 0;       ///< VersionReader
  std::size_t pending = 0;      ///< its places for pending puts
  std::vector<std::size_t>
      messages{};  ///< handshake, answer, connect, attach, attached, chunk, leaving

  /// Over RDMA; 0 where this machine has no headers for it.
  std::size_t verbs_channel = 0;
  std::size_t stripe = 0;
  std::size_t queue_pair = 0;

  std::size_t per_peer() const { return peer + link + channel + partner; }
};

Sizes sizes();

}  // namespace weft::docs
