// The records that come by a rail, taken apart, their payloads straight to where they belong.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "p2p/transport/tcp/pipe.hpp"
#include "p2p/transport/tcp/wire.hpp"

namespace weft::p2p::tcp {

/// Handles records; called by RecordReader::turn().
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// A head has come, perhaps one that can't be; nothing of its payload has gone anywhere. False:
  /// the path has been given up.
  virtual bool accepts(const Head& head) {
    (void)head;
    return true;
  }
  /// A payload is about to come: where to, in order, `head.bytes` in all. More parts than `places`
  /// holds are asked for again, `already` bytes later. Null data: it is dropped. False: the path
  /// has been given up.
  virtual bool begin(const Head& head, std::uint64_t already, std::vector<iovec>& places) = 0;
  /// The record is there. False: the path has been given up.
  virtual bool end(const Head& head) = 0;
  virtual void malformed(const char* trouble) = 0;
};

/// The caller locks.
class RecordReader {
 public:
  explicit RecordReader(Pipe& pipe) noexcept : pipe_(pipe) {}

  enum class State : std::uint8_t { drained, more, ended, failed };
  /// Receives what is there, `most` bytes or a little more, and hands it over. more: something may
  /// be left.
  State turn(RecordSink& sink, std::size_t most);
  /// The next turn takes whatever is there, though it may be little of much.
  void take_any() noexcept { pipe_.expect(1); }
  /// Whether anything came since it was last asked.
  bool take_heard() noexcept { return std::exchange(heard_, false); }
  /// The connection is another one: what had come of a record is gone.
  void restart() noexcept {
    begin_ = end_ = next_ = 0;
    left_ = pieces_ = 0;
    in_payload_ = heard_ = false;
    error_ = 0;
    places_.clear();
  }
  /// The errno behind State::failed.
  int error() const noexcept { return error_; }
  /// The places that the payload under way goes to, for a caller that has to take them away.
  std::vector<iovec>& places() noexcept { return places_; }
  const Head* under_way() const noexcept { return in_payload_ ? &head_ : nullptr; }

 private:
  /// Bytes behind a head that are read along with it and copied, at most.
  static constexpr std::size_t kBuffer = 4096;
  /// While more than this of a payload is to come, no more than the next head is read along.
  static constexpr std::size_t kLarge = 16u << 10;
  /// Bytes of a payload with more to come that are worth a system call: every packet by itself
  /// would cost a call, a wake-up and an acknowledgement.
  static constexpr std::size_t kWorthTaking = 256u << 10;
  /// Limits of one system call.
  static constexpr std::size_t kMostBytes = 1u << 20;
  static constexpr std::size_t kMostParts = 64;

  std::size_t buffered() const noexcept { return end_ - begin_; }
  std::size_t collect(std::array<iovec, kMostParts + 1>& parts, std::size_t& asked) noexcept;
  void took(std::size_t bytes) noexcept;
  bool take_buffered(RecordSink& sink);
  State pause(State state) noexcept;
  bool finish(RecordSink& sink);

  Pipe& pipe_;
  std::array<std::byte, kBuffer> buffer_;  ///< from begin_ to end_: not yet dealt with
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  Head head_;
  bool in_payload_ = false;
  std::uint64_t left_ = 0;     ///< of the payload
  std::uint64_t pieces_ = 0;   ///< bytes of them, since another tensor came
  std::vector<iovec> places_;  ///< for it, from next_ on
  std::size_t next_ = 0;
  bool heard_ = false;
  int error_ = 0;
};

}  // namespace weft::p2p::tcp
