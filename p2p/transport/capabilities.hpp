// Capabilities of a path, by fabric.
#pragma once

#include <atomic>
#include <cstddef>

#include "p2p/transport/address/fabric_kind.hpp"

namespace weft::p2p {

/// Capabilities of a channel. Those known only once the path is up are atomic. Any thread reads,
/// the channel writes.
struct Capabilities {
  explicit Capabilities(FabricKind kind) noexcept : fabric(kind) {}

  const FabricKind fabric;
  /// A put or get is a copy that the calling thread makes within the call: its memory here may lie
  /// anywhere in the process, and a put has ended when it returns.
  bool copies = false;
  /// A written word takes a request like a put's: a word that no rank waits for is better written
  /// together with what follows.
  bool words_take_requests = false;
  /// Queue pairs to the peer, of which a put may ask for one.
  std::atomic<int> queue_pairs{1};
  /// The largest payload that may have its word behind it (PutWork::with_tail): a write puts its
  /// bytes into memory in their order. 0: no payload may.
  std::atomic<std::size_t> tails_up_to{0};
  /// The peer reaches memory that a user of this rank adopted.
  std::atomic<bool> peer_reaches_adopted{false};
};

}  // namespace weft::p2p
