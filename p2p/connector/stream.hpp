// Messages over a connection between two ranks that have met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "p2p/connector/watched.hpp"

namespace weft::p2p {

/// A TCP connection with frames: two bytes of length (little-endian), then the message. A length of
/// 0 is a sign of life, kEnd the orderly end. Progress thread only. Its events may close it, and
/// must not destroy it.
class Stream {
 public:
  static constexpr std::size_t kMaxMessage = 1024;
  static constexpr std::uint16_t kEnd = 0xffff;

  struct Events {
    std::function<void(std::span<const std::byte> message)> said;
    /// Once; not after close(). It is closed by then.
    std::function<void(bool orderly, const std::string& why)> ended;
  };

  /// Throws Error(system).
  Stream(ProgressThread& progress, os::Fd socket, Events events);
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool is_open() const noexcept { return static_cast<bool>(socket_); }
  /// 1 to kMaxMessage bytes. What the socket can't take yet is queued.
  void send(std::span<const std::byte> message);
  void send_sign_of_life() { put_frame(0, {}); }
  /// What was queued goes out, then the end. The peer's end, or its silence, follows by ended().
  void send_end();
  /// No event follows.
  void close() noexcept;

  /// A period of the heartbeat has passed: gives a sign of life unless something else was sent in
  /// it. Ends the connection when nothing came for `most` periods.
  void tick(int most, const std::string& why_silent);
  /// The periods passed so far don't count.
  void excuse() noexcept { silent_periods_ = 0; }

 private:
  void put_frame(std::uint16_t length, std::span<const std::byte> message);
  void flush();
  void receive();
  bool deliver(std::span<const std::byte> bytes);
  void end(bool orderly, const std::string& why);

  const Events events_;
  Watched socket_;
  std::vector<std::byte> partial_;  ///< the beginning of a frame
  std::vector<std::byte> queue_;    ///< what the socket could not take, from `sent_` on
  std::size_t sent_ = 0;
  int silent_periods_ = 0;
  bool heard_ = true;   ///< in this period
  bool spoke_ = false;  ///< in this period
  bool said_end_ = false;
  int send_error_ = 0;
};

}  // namespace weft::p2p
