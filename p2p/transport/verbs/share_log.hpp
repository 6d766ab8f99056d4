// The shares that a queue pair carries where there are several links, until the peer has handled
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "p2p/transport/put_work.hpp"
#include "p2p/transport/verbs/queue_pair.hpp"
#include "p2p/transport/verbs/work_request_chain.hpp"

namespace weft::p2p::verbs {

/// A share of a put as another link can send it again, and its notification.
struct Share {
  std::uint64_t number = 0;   ///< of the notification; another one's place here is of no share
  std::uint64_t stripe = 0;   ///< the put's number; 0: it belongs to none
  std::uint64_t request = 0;  ///< its last one; 0: not all of it was posted
  MemoryPiece piece{};        ///< whole, with no key that counts
  RemoteMemory to{};          ///< with the first link's key
  std::uint32_t immediate = 0;
  std::uint32_t speaks_for = 0;  ///< links without a share, by bit
  bool is_held = false;          ///< lost, so that its put does not end before it was sent again
};

/// By the number of its notification, from 1. A later one takes the place of one that the peer must
/// have handled, as a notification is sent only if its receive was posted again. Guarded by its
/// user.
class ShareLog {
 public:
  /// Receives at the peer, and those shares that a loss finds half posted.
  static constexpr std::size_t kRoom = std::size_t{2} * QueuePair::kReceives;

  Share& at(std::uint64_t notification) noexcept { return shares_[notification % kRoom]; }
  auto begin() noexcept { return shares_.begin(); }
  auto end() noexcept { return shares_.end(); }
  void clear() noexcept { shares_ = {}; }

 private:
  std::array<Share, kRoom> shares_{};
};

}  // namespace weft::p2p::verbs
