// All signals and remote signals of this rank, and the control messages about them.
#pragma once

#include <cstddef>
#include <span>

#include "p2p/signal/exposed_signals.hpp"
#include "p2p/signal/remote_signals.hpp"

namespace weft::p2p {

class SignalTable {
 public:
  SignalTable(LocalRank& local, Mesh& mesh) : exposed_(local, mesh), remote_(local, mesh) {}

  ExposedSignals& exposed() noexcept { return exposed_; }
  RemoteSignals& remote() noexcept { return remote_; }

  // Progress thread.
  static bool understands(MessageType type) noexcept {
    return type >= MessageType::signal_wanted && type <= MessageType::signal_reply;
  }
  void on_message(Peer& peer, std::span<const std::byte> bytes);
  /// The peer is gone, and none of its writes can arrive any more.
  void on_gone(const Peer& peer) { exposed_.on_gone(peer); }

 private:
  ExposedSignals exposed_;
  RemoteSignals remote_;
};

}  // namespace weft::p2p
