// A link, where there are several, as its channel sees it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "p2p/transport/verbs/link_state.hpp"
#include "p2p/transport/verbs/sending.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {

/// Guarded by the outbox.
struct LinkRecord {
  static constexpr std::chrono::milliseconds kFirstPause{100};
  static constexpr std::chrono::milliseconds kLongestPause{2000};

  LinkState state;
  Status why;  ///< of its loss
  // The log and the counters are to be told.
  bool is_loss_untold = false;
  bool is_return_untold = false;
  bool was_up = true;  ///< in this generation
  Clock::time_point lost_at;
  bool port_is_up = true;  ///< as the link has acted on it

  std::array<std::uint64_t, LinkMessage::kMostPairs> handled{};  ///< by the peer when it was lost
  std::array<std::uint64_t, LinkMessage::kMostPairs> ordered{};  ///< of what goes in order, as well
  /// Was said past what goes in order; it is said again by the next main link.
  bool is_told_at_once = false;
  bool owes_down = false;
  LinkMessage down{};
  /// All that it carried went by another, up to these requests of its queue pairs.
  std::size_t carrier = 0;  ///< the first of these
  std::array<std::uint64_t, LinkMessage::kMostPairs> carried{};
  /// The share that is being sent again.
  enum class Stage : std::uint8_t { next, moving, told };
  Stage stage = Stage::next;
  std::size_t pair = 0;            ///< of the link
  std::uint64_t notification = 0;  ///< its number
  MemoryPiece piece{};
  Sending sending;

  std::chrono::milliseconds pause = kFirstPause;  ///< from its loss until this end tries again
  Clock::time_point next_try;
  bool has_offered = false;
  std::array<QueuePairAddress, LinkMessage::kMostPairs> peer{};
  std::array<std::uint64_t, LinkMessage::kMostPairs> probes{};  ///< requests; 0: not posted yet

  LinkMessage message(LinkMessage::Type type, std::size_t link) const noexcept {
    return {
        .type = type, .link = static_cast<std::uint32_t>(link), .generation = state.generation()};
  }
};

}  // namespace weft::p2p::verbs
