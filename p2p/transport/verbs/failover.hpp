// The state of a channel of several links by which the loss of one costs nothing else.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "p2p/transport/verbs/device/verbs_address.hpp"
#include "p2p/transport/verbs/link_record.hpp"
#include "p2p/transport/verbs/ordered_log.hpp"
#include "p2p/transport/verbs/sending.hpp"
#include "p2p/transport/verbs/share_log.hpp"

namespace weft::p2p::verbs {

/// How far sending again what goes in order has got.
struct Resending {
  bool has_begun = false;
  std::uint64_t came = 0;                                     ///< of the first place's
  std::array<std::uint64_t, LinkMessage::kMostPairs> next{};  ///< item by place
  std::uint64_t next_word = 0;
  bool is_moving = false;  ///< the next item's payload
  Sending sending;
  std::array<MemoryPiece, LongPut::kMostPieces> pieces;
};

/// Its vectors are empty where there is one link. Links are numbered, and are bits of masks.
struct Failover {
  std::vector<LinkRecord> links;  ///< guarded by the outbox
  std::vector<ShareLog> logs;     ///< by queue pair; guarded by the outbox
  // By bit.
  std::atomic<std::uint32_t> silent{0};      ///< links that puts don't use
  std::atomic<std::uint32_t> unsettled{0};   ///< those for which puts by several wait
  std::atomic<std::uint32_t> unresolved{0};  ///< those whose requests have not come to their end
  std::atomic<int> rings_owed{0};            ///< since a put was put off
  std::atomic<bool> is_busy{false};          ///< some link is neither up nor quiet
  std::array<std::atomic<std::uint32_t>, kMostRails> losses{};  ///< how often each was lost
  /// Links of the peer's that its first queue pair of its main link speaks for.
  std::atomic<std::uint32_t> spoken_for{0};
  std::atomic<int> speaker{0};
  /// By place in a link: what goes in order has come so far.
  std::array<std::atomic<std::uint64_t>, LinkMessage::kMostPairs> seen{};

  std::atomic<std::size_t> base{0};  ///< main_pair()
  std::size_t main = 0;              ///< a link; guarded by the outbox
  std::uint32_t lost_mains = 0;      ///< whose load waits; guarded by the outbox
  std::vector<OrderedLog> ordered;   ///< by place in a link
  WordLog words;
  std::unique_ptr<Resending> resending;  ///< guarded by the outbox
};

}  // namespace weft::p2p::verbs
