// Messages over a connection between two ranks that have met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "p2p/progress/watched_fd.hpp"
#include "p2p/transport/auth/record_cipher.hpp"
#include "p2p/transport/wireup/heartbeats.hpp"

namespace weft::p2p {

/// A TCP connection with frames: two bytes of length (little-endian), then the message. A length of
/// 0 is a sign of life, kEnd the orderly end, kGivenUp the other: the two bytes that follow are the
/// length of its reason. Progress thread only. Its events may close it, and must not destroy it.
class Stream {
 public:
  static constexpr std::size_t kMaxMessage = 1024;
  static constexpr std::uint16_t kEnd = 0xffff;
  static constexpr std::uint16_t kGivenUp = 0xfffd;
  /// And below: a BeatCall, from the first on.
  static constexpr std::uint16_t kFirstBeatCall = 0xfffc;
  /// How a connection ended. `process_ended`: so its host's kernel said. `given_up`: so the other
  /// end said, with the reason.
  enum class How : std::uint8_t { orderly, process_ended, given_up, broken };

  struct Events {
    std::function<void(std::span<const std::byte> message)> said;
    std::function<void(BeatCall call)> beat_called;
    /// Once; not after close(). It is closed by then.
    std::function<void(How how, const std::string& why)> ended;
  };

  /// With a cipher every frame travels sealed, in a record of its own (two bytes of length, then
  /// the sealed frame), behind the cipher's header. Throws Error(system).
  Stream(ProgressThread& progress, os::Fd socket, Events events,
         std::optional<RecordCipher> cipher = std::nullopt);
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool is_open() const noexcept { return static_cast<bool>(socket_); }
  int socket() const noexcept { return socket_.get(); }
  /// 1 to kMaxMessage bytes. Bytes that the socket can't take yet are queued.
  void send(std::span<const std::byte> message);
  void send_sign_of_life() { put_frame(0, {}); }
  void send(BeatCall call);
  /// Sends the queued messages, then the end. The peer's end, or its silence, follows by ended().
  void send_end();
  /// The peer is dead for this rank, or its path is: it is told so, in case that it lives. No event
  /// follows. Stays open until the peer has closed it: what still comes must not be answered by a
  /// reset, which would look like the end of this process.
  void give_up(const std::string& why);
  /// No event follows.
  void close() noexcept;
  bool has_said_end() const noexcept { return said_end_; }

  /// A period of the heartbeat has passed: gives a sign of life, if one is due, unless something
  /// else was sent in it. How many periods nothing has come for.
  int tick(bool sign_is_due);
  /// The periods passed so far don't count.
  void excuse() noexcept { silent_periods_ = 0; }

 private:
  void put_frame(std::uint16_t length, std::span<const std::byte> message);
  void put_sealed(std::span<const std::byte> frame);
  void put(std::span<const std::byte> first, std::span<const std::byte> second);
  void flush();
  void receive();
  bool deliver(std::span<const std::byte> bytes);
  std::optional<std::size_t> deliver_frames(std::span<const std::byte> bytes);
  std::optional<std::size_t> deliver_sealed(std::span<const std::byte> bytes);
  std::optional<std::size_t> end_changed();
  void end(How how, const std::string& why);
  How how_ended() const noexcept { return said_end_ ? How::orderly : How::process_ended; }

  const Events events_;
  std::optional<RecordCipher> cipher_;
  bool cipher_begun_ = false;  ///< the other end's header has come
  Watched socket_;
  std::vector<std::byte> partial_;  ///< the beginning of a frame
  std::vector<std::byte> queue_;    ///< what the socket could not take, from `sent_` on
  std::size_t sent_ = 0;
  int silent_periods_ = 0;
  bool heard_ = true;   ///< in this period
  bool spoke_ = false;  ///< in this period
  bool said_end_ = false;
  bool given_up_ = false;
  int send_error_ = 0;
};

}  // namespace weft::p2p
