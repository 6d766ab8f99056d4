// Puts on their way into a queue pair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "p2p/transport/notification_table.hpp"
#include "p2p/transport/verbs/work_request_chain.hpp"

namespace weft::p2p::verbs {

/// How the end of what is sent is made known.
enum class NotifyMethod : std::uint8_t {
  immediate,  ///< with its last request
  separate,   ///< an immediate of its own
  message,    ///< a SEND of its own
  tail,       ///< a word right after it
  none        ///< a LinkMessage follows
};

/// The part of a put that one queue pair carries.
struct Sending {
  std::size_t pair = 0;  ///< by index
  NotifyMethod notify_method = NotifyMethod::immediate;
  PayloadCursor rest{};
  std::uint32_t immediate = 0;
  std::uint64_t tail = 0;
  std::uint32_t pad = 0;  ///< bytes between payload and tail word
  bool is_inline = false;
  // Where there are several links, to send it again.
  bool is_ordered = false;             ///< goes by the main link, in order
  bool is_again = false;               ///< it was logged when it was sent first
  MemoryPiece whole{};                 ///< a share
  RemoteMemory whole_to{};             ///< with the first link's key
  std::span<const MemoryPiece> all{};  ///< of what is ordered
  std::uint64_t stripe = 0;
  std::uint32_t speaks_for = 0;  ///< links without a share, by bit
  // Answers.
  bool is_out = false;             ///< all of it was posted
  std::uint64_t last = 0;          ///< request
  std::uint64_t notification = 0;  ///< the number of its queue pair's

  /// Whether its end takes a request of its own.
  bool adds_request(const WorkRequestChain& chain) const noexcept {
    return notify_method == NotifyMethod::separate || notify_method == NotifyMethod::message ||
           chain.count() == 0;
  }
};

/// A put by several queue pairs, or of more than one chain of requests, until all was posted.
struct LongPut {
  /// A tensor of more runs is packed first: that many work requests would cost more than a copy.
  static constexpr std::size_t kMostPieces = 256;

  std::uint32_t notification_id = 0;
  std::uint64_t stripe = 0;
  std::array<MemoryPiece, kMostPieces> pieces;
  std::size_t piece_count = 0;
  std::array<Sending, NotificationTable::kMaxQueuePairs> sendings;
  std::size_t count = 0;  ///< of sendings; 0: this place is free
  std::span<Sending> all() noexcept { return {sendings.data(), count}; }
};

}  // namespace weft::p2p::verbs
