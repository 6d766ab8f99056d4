// Control messages and descriptors between two processes of a host.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/connector/handshake.hpp"
#include "p2p/fabric.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "weft/deadline.hpp"

namespace weft::p2p {

/// A connected Unix socket that keeps message borders (SOCK_SEQPACKET). Progress thread only.
/// Messages that the socket can't take yet are queued, in order.
class Link {
 public:
  static constexpr std::size_t kMaxMessage = Channel::kMaxMessage;
  static constexpr std::size_t kMaxDescriptors = 2;

  using OnMessage = std::function<void(Link&, std::span<const std::byte>, std::vector<os::Fd>)>;
  using OnEnd = std::function<void(Link&)>;

  Link(ProgressThread& progress, os::Fd socket, OnMessage on_message, OnEnd on_end);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// `descriptors` are duplicated for the peer and stay the caller's; they must stay open until the
  /// message is out, which a full socket may delay.
  void send(std::span<const std::byte> message, std::span<const int> descriptors = {});
  template <typename Message>
  void send(const Message& message, std::span<const int> descriptors = {}) {
    send(std::as_bytes(std::span(&message, 1)), descriptors);
  }

  /// The process at the other end, as the kernel knows it.
  pid_t peer_pid() const noexcept { return peer_pid_; }
  uid_t peer_uid() const noexcept { return peer_uid_; }
  /// The rank at the other end; -1 until it has been introduced.
  int rank = -1;
  /// How far the introduction has come.
  struct Introduction {
    enum class Stage : std::uint8_t { none, greeted, proved, refused };
    Stage stage = Stage::none;
    Hello caller;
    Answer called;
    Clock::time_point since = Clock::now();
  };
  Introduction introduction;

  /// Handles what has arrived already.
  void drain() {
    if (!ended_) receive();
  }

 private:
  struct Queued {
    std::vector<std::byte> bytes;
    std::vector<int> descriptors;
  };
  bool transmit(std::span<const std::byte> message, std::span<const int> descriptors) noexcept;
  void receive();
  void flush() noexcept;
  void end();

  ProgressThread& progress_;
  os::Fd socket_;
  OnMessage on_message_;
  OnEnd on_end_;
  std::deque<Queued> queue_;
  pid_t peer_pid_ = 0;
  uid_t peer_uid_ = 0;
  bool ended_ = false;
};

}  // namespace weft::p2p
