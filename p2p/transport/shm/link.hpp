// Control messages and descriptors between two processes of a host.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"
#include "weft/deadline.hpp"

namespace weft::p2p {

/// A connected Unix socket that keeps message borders (SOCK_SEQPACKET). Progress thread only.
/// Messages that the socket can't take yet are queued, in order.
class Link {
 public:
  static constexpr std::size_t kMaxMessage = Channel::kMaxMessage;
  static constexpr std::size_t kMaxDescriptors = 2;

  /// Never used again by the same fabric, as an address or a descriptor is.
  using Id = std::uint64_t;
  using OnMessage = std::function<void(Link&, std::span<const std::byte>, std::vector<os::Fd>)>;
  using OnEnd = std::function<void(Link&)>;

  /// The process at the other end of a Unix socket, as the kernel knows it.
  struct Process {
    pid_t pid = 0;
    uid_t uid = 0;

    static Process of_peer(int socket) noexcept;
  };

  /// Throws Error(system).
  Link(Id id, ProgressThread& progress, os::Fd socket, OnMessage on_message, OnEnd on_end);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// `descriptors` are duplicated for the peer and stay the caller's; they must stay open until the
  /// message is out, which a full socket may delay.
  void send(std::span<const std::byte> message, std::span<const int> descriptors = {});
  template <typename Message>
  void send(const Message& message, std::span<const int> descriptors = {}) {
    send(as_bytes(message), descriptors);
  }

  /// Whether this process had no descriptor left for those that came with the latest message.
  bool lost_descriptors() const noexcept { return lost_descriptors_; }
  bool has_sent_all() const noexcept { return queue_.empty(); }
  /// The rank goes, and progress has stopped: sends what is queued, as far as the socket takes it.
  /// Drops what has come, since the peer may go as well and wait for room. Returns has_sent_all().
  bool send_rest() noexcept;
  Id id() const noexcept { return id_; }
  const Process& peer() const noexcept { return peer_; }
  /// The rank at the other end; -1 until it has authenticated.
  int rank = -1;
  /// How far the handshake has come.
  struct Wireup {
    enum class Stage : std::uint8_t { none, begun, proved, refused };
    Stage stage = Stage::none;
    Handshake client;
    Answer server;
  };
  Wireup wireup;

  /// Handles what has arrived already. Requires that the other end's process has ended: then there
  /// is an end to it.
  void drain() {
    for (int i = 0; i < kMostTurns && receive(); ++i) {
    }
  }

 private:
  /// More than a socket can hold, whichever processes have its other end.
  static constexpr int kMostTurns = 1024;

  struct Queued {
    std::vector<std::byte> bytes;
    std::vector<int> descriptors;
  };
  bool transmit(std::span<const std::byte> message, std::span<const int> descriptors) noexcept;
  /// Some messages; whether there may be more.
  bool receive();
  void flush() noexcept;
  void end();

  const Id id_;
  ProgressThread& progress_;
  os::Fd socket_;
  const Process peer_;
  OnMessage on_message_;
  OnEnd on_end_;
  std::deque<Queued> queue_;
  bool ended_ = false;
  bool lost_descriptors_ = false;
};

}  // namespace weft::p2p
