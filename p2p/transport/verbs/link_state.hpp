// A link, where there are several, from its loss to its return: what both ends have said about it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "p2p/transport/notification_table.hpp"
#include "p2p/transport/verbs/queue_pair.hpp"

namespace weft::p2p::verbs {

/// Two ends tell each other about a link, by the first queue pair of another: in the order of all
/// that goes by the main link, but `down` as soon as the peer is sure to be of the same generation,
/// and perhaps more than once.
struct LinkMessage {
  /// Queue pairs of one link, where there are two links at least.
  static constexpr std::size_t kMostPairs = NotificationTable::kMaxQueuePairs / 2;
  enum class Type : std::uint32_t {
    down,     ///< nothing of it arrives at the sender any more; `handled` came before
    resent,   ///< one share: its bytes are there
    settled,  ///< that was the last of `handled`; from now on the sender's puts go without the link
    again,    ///< the sender's queue pairs have begun anew
    ready,    ///< a request of the sender has passed
    resumed   ///< from now on the sender's puts use it
  };
  Type type = Type::down;
  std::uint32_t link = 0;
  std::uint32_t generation = 0;  ///< how often it has begun anew
  std::uint32_t pair = 0;        ///< resent: of the link
  std::uint32_t immediate = 0;   ///< resent: the notification
  std::uint32_t speaks_for = 0;  ///< resent: it counts for these links, too, by bit
  std::uint32_t is_at_once = 0;  ///< past what goes in order
  std::uint32_t reserved = 0;
  std::array<std::uint64_t, kMostPairs> handled{};  ///< notifications, by queue pair
  std::array<std::uint64_t, kMostPairs>
      ordered{};  ///< down: of those that go in order, by any link
  std::array<QueuePairAddress, kMostPairs> pairs{};  ///< again
};

enum class LinkPhase : std::uint8_t {
  up,         ///< carries shares
  draining,   ///< its queue pairs are in error, and what they hold is flushed
  told,       ///< the peer knows what has arrived here
  settling,   ///< both know: what was lost goes by the main link
  settled,    ///< puts go without it
  quiet,      ///< at the peer, too: the next generation begins
  resetting,  ///< its queue pairs begin anew
  offered,    ///< they have, and the peer is told
  proving,    ///< they are ready, and a first request is under way
  proven      ///< it has passed
};

/// One end's. Not thread-safe.
class LinkState {
 public:
  LinkPhase phase() const noexcept { return phase_; }
  std::uint32_t generation() const noexcept { return generation_; }
  bool peer_is_down() const noexcept { return peer_.down; }
  bool peer_begins_anew() const noexcept { return peer_.again; }
  bool peer_is_ready() const noexcept { return peer_.ready; }

  /// Up, offered, proving or proven.
  bool may_be_lost() const noexcept;
  /// To draining, if it may be lost.
  bool lose() noexcept;
  /// To the next phase, but for those to draining (lose()), and to quiet.
  void advance() noexcept;
  /// The peer has said so. False: it can't have, by what both have said before.
  bool hear(LinkMessage::Type type, std::uint32_t generation) noexcept;

 private:
  struct Peer {
    bool again = false;
    bool ready = false;
    bool resumed = false;
    bool down = false;
    bool settled = false;
  };
  bool may_be_resent() const noexcept;
  bool may_hear_late() const noexcept;
  void close_generation() noexcept;

  LinkPhase phase_ = LinkPhase::up;
  std::uint32_t generation_ = 0;
  Peer peer_{.again = true, .ready = true, .resumed = true};  ///< said in this generation
};

}  // namespace weft::p2p::verbs
