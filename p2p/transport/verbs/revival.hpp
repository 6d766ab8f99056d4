// A queue pair is taken down while its path goes on, and begins anew.
#pragma once

#include <algorithm>
#include <cstdint>

#include "p2p/transport/verbs/queue_pair.hpp"

namespace weft::p2p::verbs {

/// Acts on a queue pair that was made with Options::recoverable. In order: lose(), until
/// is_drained(); resolve(); restart(), QueuePair::set_peer() and connect(), then probe(), until its
/// request has succeeded; and again. Thread-safe but for restart().
class Revival {
 public:
  explicit Revival(QueuePair& pair) noexcept : pair_(pair) {}

  /// Before anything is posted: no more than `bytes` travel in a request itself.
  void limit_inline(std::uint32_t bytes) noexcept {
    pair_.limits_.max_inline = std::min(pair_.limits_.max_inline, bytes);
  }
  /// Nothing is posted to it any more, nothing of the peer arrives, and what is under way is
  /// flushed. No request counts as ended by that.
  void lose() noexcept;
  /// Whether no completion of it will come any more. Asks for one that is missing.
  bool is_drained() noexcept;
  /// How many of its notifications the peer has certainly handled.
  std::uint64_t taken() const noexcept;
  /// Numbers a notification that is never posted.
  std::uint64_t skip_notification() noexcept;
  /// One of the peer's notifications has come by another queue pair.
  void count_resent() noexcept;
  /// All that the peer has sent by it has come, one way or the other: `notifications` in all.
  /// False: they can't be.
  bool count_all(std::uint64_t notifications) noexcept;
  /// All that it carried has come to the peer, one way or the other: its requests have succeeded.
  void resolve() noexcept;
  /// Its path is over: what was flushed counts as ended, from now on too.
  void abandon() noexcept;

  /// Drained and resolved: ready for a peer again, with new packet numbers and all receives posted.
  /// The caller must hold no lock that a QueuePairEvents takes. Throws Error.
  void restart();
  /// Posts a request that moves nothing: its number, or 0: no room now.
  std::uint64_t probe() noexcept;

 private:
  QueuePair& pair_;
};

}  // namespace weft::p2p::verbs
