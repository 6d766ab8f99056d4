// Another rank as this one sees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/formatted.hpp"
#include "base/stats/layout.hpp"
#include "p2p/mesh/mesh_messages.hpp"
#include "p2p/transport/address/rank_address.hpp"
#include "p2p/transport/fabric.hpp"

namespace weft::p2p {

enum class PeerState : std::uint8_t { joining, connected, left, failed };

/// Changed by the progress thread only. Any thread may read `state`; a thread that reads a state
/// also sees the fields that the state promises: `channel` from connected on, `cause` and `rails`
/// from left on.
struct Peer {
  int rank = -1;
  RankAddress address;
  Fabric* fabric = nullptr;  ///< the fabric that reaches it
  std::atomic<PeerState> state{PeerState::joining};
  int cause = -1;       ///< left or failed: the rank that caused it, or -1
  int cause_exit = -1;  ///< exit status that `cause` called exit() with; -1: `cause` failed
  std::uint32_t gone_order = 0;  ///< left or failed: position among the peers that are gone, from 1
  std::string declared_dead;     ///< failed: why it was declared dead; empty: it died
  std::string ending;            ///< how it announced its end: "SIGTERM", "exit(3)"
  bool exits = false;    ///< it announced exit(), so its end is no failure; progress thread only
  int exit_status = -1;  ///< the status of that exit(), or -1
  Cause end_cause;       ///< the cause it announced for its end; progress thread only
  std::vector<RailReport> rails;  ///< left or failed: of its path, as they were last
  std::string condition;          ///< failed: its last known condition, such as "stopped for 9 s"
  Status disconnect_status;       ///< failed: its fabric's reason; ok: its process ended
  /// Left or failed, and none of its writes can arrive any more: memory it could write is free.
  std::atomic<bool> silent{false};
  /// Left or failed, and known to have ended: it said so, or its process was seen to end. Progress
  /// thread only, as are the next three.
  bool ended = false;
  bool unfenced = false;  ///< failed, and not prevented from writing
  bool settled = false;   ///< gone, and this rank has agreed to go on without it
  bool released = false;  ///< Mesh::release() has run
  /// Connects on first use and has not connected yet. Progress thread only.
  bool idle = false;
  std::unique_ptr<Channel> channel;
  stats::PathEntry* shown = nullptr;  ///< its entry in this rank's stats segment

  /// Empty without memory for it.
  std::string host() const noexcept {
    return text_or_empty([this] { return std::string(address.host.data()); });
  }
  /// Progress thread, before it is gone. Without memory for them none are kept.
  void keep_rails() noexcept {
    if (state.load() != PeerState::connected) return;
    try {
      rails = channel->rails();
    } catch (const std::bad_alloc&) {
      rails.clear();
    }
  }
  /// Any thread. Throws std::bad_alloc.
  std::vector<RailReport> known_rails() const {
    if (gone()) return rails;
    return state.load(std::memory_order_acquire) == PeerState::connected
               ? channel->rails()
               : std::vector<RailReport>();
  }
  bool gone() const noexcept { return state.load(std::memory_order_acquire) >= PeerState::left; }
  /// True if it left by itself and not by exit() with a nonzero status.
  bool left_in_order() const noexcept {
    return state.load(std::memory_order_acquire) == PeerState::left && cause < 0 &&
           exit_status <= 0;
  }
};

}  // namespace weft::p2p
