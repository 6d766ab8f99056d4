// Another rank, as this one knows it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/stats/layout.hpp"
#include "p2p/mesh/mesh_messages.hpp"
#include "p2p/transport/address/rank_address.hpp"
#include "p2p/transport/fabric.hpp"

namespace weft::p2p {

enum class PeerState : std::uint8_t { joining, connected, left, failed };

/// The progress thread changes it; `state` may be read by any thread, and what a state promises to
/// be set (channel from connected on, cause from left on) is visible to who reads the state.
struct Peer {
  int rank = -1;
  RankAddress address;
  Fabric* fabric = nullptr;  ///< the one it is reached by
  std::atomic<PeerState> state{PeerState::joining};
  int cause = -1;                ///< left or failed: the rank that made it leave or end, or -1
  int cause_exit = -1;           ///< cause called exit() with this; -1: it failed
  std::uint32_t gone_order = 0;  ///< left or failed: how many peers were gone with it
  std::string declared_dead;     ///< failed: why it was declared so; empty: it died
  std::string ending;            ///< what it said of its end: "SIGTERM", "exit(3)"
  bool exits = false;            ///< it calls exit(): its end is no failure. The progress thread's
  int exit_status = -1;          ///< with this
  Cause end_cause;               ///< what it said of that. The progress thread's
  std::string condition;         ///< failed: what it was thought to be before: "stopped for 9 s"
  Status disconnect_status;      ///< failed: what its fabric says; ok: its process ended
  /// Left or failed, and no byte of it arrives any more: what it could write into is free.
  std::atomic<bool> silent{false};
  /// Left or failed, and nothing of it remains: it said so, or its process was seen to end. The
  /// progress thread's, as the next two.
  bool ended = false;
  bool unfenced = false;  ///< failed, and nothing keeps it from writing
  bool settled = false;   ///< gone, and agreed to be done without; the progress thread's
  bool released = false;  ///< the progress thread's: that has been dealt with
  /// The path is made when it is first used, and has not been yet. The progress thread's.
  bool idle = false;
  std::unique_ptr<Channel> channel;
  stats::PathEntry* shown = nullptr;  ///< its place on this rank's stats segment

  std::string host() const { return address.host.data(); }
  bool gone() const noexcept { return state.load(std::memory_order_acquire) >= PeerState::left; }
  /// Of itself, and not by exit() with a status other than 0.
  bool left_in_order() const noexcept {
    return state.load(std::memory_order_acquire) == PeerState::left && cause < 0 &&
           exit_status <= 0;
  }
};

}  // namespace weft::p2p
