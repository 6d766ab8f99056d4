#include "p2p/transport/wireup/stream.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/os/system_error.hpp"

namespace weft::p2p {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint16_t);
constexpr std::size_t kScratch = 16u << 10;
static_assert(kScratch > kHeader + Stream::kMaxMessage);
constexpr std::size_t kMostFrame = 2 * kHeader + Stream::kMaxMessage;
constexpr std::size_t kMostSealed = kMostFrame + RecordCipher::kOverhead;
static_assert(kScratch > kHeader + kMostSealed);
/// Until the others get their turn.
constexpr int kReads = 8;

constexpr std::size_t length_of(BeatCall call) noexcept {
  return Stream::kFirstBeatCall - static_cast<std::size_t>(call);
}

std::optional<BeatCall> call_of(std::size_t length) noexcept {
  for (const BeatCall call : {BeatCall::watch, BeatCall::no_longer, BeatCall::alarm})
    if (length == length_of(call)) return call;
  return std::nullopt;
}

}  // namespace

Stream::Stream(ProgressThread& progress, os::Fd socket, Events events,
               std::optional<RecordCipher> cipher)
    : events_(std::move(events)),
      cipher_(std::move(cipher)),
      socket_(progress, std::move(socket), EPOLLIN, [this](std::uint32_t happened) {
        if ((happened & EPOLLOUT) != 0) flush();
        if ((happened & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
      }) {
  if (cipher_) put(cipher_->header(), {});
}

void Stream::send(std::span<const std::byte> message) {
  assert(!message.empty() && message.size() <= kMaxMessage);
  put_frame(static_cast<std::uint16_t>(message.size()), message);
}

void Stream::send(BeatCall call) { put_frame(static_cast<std::uint16_t>(length_of(call)), {}); }

void Stream::send_end() {
  put_frame(kEnd, {});
  said_end_ = true;
  if (is_open() && queue_.empty()) ::shutdown(socket_.get(), SHUT_WR);
}

void Stream::give_up(const std::string& why) {
  const std::string_view reason = std::string_view(why).substr(0, kMaxMessage - kHeader);
  std::vector<std::byte> body = {static_cast<std::byte>(reason.size() & 0xff),
                                 static_cast<std::byte>(reason.size() >> 8)};
  const auto text = std::as_bytes(std::span(reason));
  body.insert(body.end(), text.begin(), text.end());
  put_frame(kGivenUp, body);
  given_up_ = said_end_ = true;
  if (is_open() && queue_.empty()) ::shutdown(socket_.get(), SHUT_WR);
}

void Stream::put_frame(std::uint16_t length, std::span<const std::byte> message) {
  if (!is_open() || said_end_ || send_error_ != 0) return;
  spoke_ = true;
  const std::array<std::byte, kHeader> header = {static_cast<std::byte>(length & 0xff),
                                                 static_cast<std::byte>(length >> 8)};
  if (!cipher_) return put(header, message);
  std::array<std::byte, kMostFrame> frame;
  std::copy(header.begin(), header.end(), frame.begin());
  std::copy(message.begin(), message.end(), frame.begin() + kHeader);
  put_sealed(std::span(frame).first(kHeader + message.size()));
}

void Stream::put_sealed(std::span<const std::byte> frame) {
  std::array<std::byte, kHeader + kMostSealed> record;
  const std::size_t length = frame.size() + RecordCipher::kOverhead;
  record[0] = static_cast<std::byte>(length & 0xff);
  record[1] = static_cast<std::byte>(length >> 8);
  cipher_->seal(frame, std::span(record).subspan(kHeader, length));
  put(std::span(record).first(kHeader + length), {});
}

/// Sends what the socket takes, and queues the rest.
void Stream::put(std::span<const std::byte> first, std::span<const std::byte> second) {
  std::size_t out = 0;
  if (queue_.empty()) {
    std::array<iovec, 2> parts = {iovec{const_cast<std::byte*>(first.data()), first.size()},
                                  iovec{const_cast<std::byte*>(second.data()), second.size()}};
    msghdr frame{};
    frame.msg_iov = parts.data();
    frame.msg_iovlen = parts.size();
    ssize_t sent = 0;
    do sent = ::sendmsg(socket_.get(), &frame, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
      // Bytes that came before show an end of input too, which is handled there.
      send_error_ = errno;
      return;
    }
    out = sent > 0 ? static_cast<std::size_t>(sent) : 0;
    if (out == first.size() + second.size()) return;
    socket_.change(EPOLLIN | EPOLLOUT);
  }
  const std::size_t of_first = std::min(out, first.size());
  queue_.insert(queue_.end(), first.begin() + of_first, first.end());
  queue_.insert(queue_.end(), second.begin() + (out - of_first), second.end());
}

void Stream::flush() {
  while (sent_ < queue_.size()) {
    const ssize_t sent = ::send(socket_.get(), queue_.data() + sent_, queue_.size() - sent_,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) break;
    if (sent < 0) {
      send_error_ = errno;
      sent_ = queue_.size();
      break;
    }
    sent_ += static_cast<std::size_t>(sent);
    spoke_ = true;
  }
  if (sent_ < queue_.size()) {
    // Sent bytes are removed once they are the larger part: moving the rest is then paid for.
    if (sent_ >= queue_.size() - sent_) {
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(sent_));
      sent_ = 0;
    }
    return;
  }
  queue_.clear();
  sent_ = 0;
  socket_.change(EPOLLIN);
  if (said_end_) ::shutdown(socket_.get(), SHUT_WR);
}

void Stream::receive() {
  std::array<std::byte, kScratch> scratch;
  for (int i = 0; i < kReads && is_open(); ++i) {
    const std::size_t held = partial_.size();
    std::copy(partial_.begin(), partial_.end(), scratch.begin());
    const std::size_t room = scratch.size() - held;
    const ssize_t got = ::recv(socket_.get(), scratch.data() + held, room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (given_up_ && got > 0) continue;
    const int error = got < 0 ? errno : send_error_;
    // A living rank does not reset a connection: it says so before it gives a rank up.
    if (got < 0 && (error == ECONNRESET || error == EPIPE))
      return end(how_ended(), "its connection was reset: the process ended");
    if (got < 0 || (got == 0 && error != 0 && error != ECONNRESET && error != EPIPE))
      return end(said_end_ ? How::orderly : How::broken,
                 "its connection broke: " + os::words(error));
    if (got == 0) return end(how_ended(), "its connection was closed: the process ended");
    heard_ = true;
    partial_.clear();
    if (!deliver(std::span(scratch).first(held + static_cast<std::size_t>(got)))) return;
    if (static_cast<std::size_t>(got) < room) return;
  }
}

/// False: the connection is closed.
bool Stream::deliver(std::span<const std::byte> bytes) {
  const auto taken = cipher_ ? deliver_sealed(bytes) : deliver_frames(bytes);
  if (!taken) return false;
  bytes = bytes.subspan(*taken);
  partial_.assign(bytes.begin(), bytes.end());
  return true;
}

std::optional<std::size_t> Stream::end_changed() {
  end(How::broken, "what came is not what it sealed (WEFT_ENCRYPT): it was changed on its way");
  return std::nullopt;
}

/// As deliver_frames(), of sealed ones.
std::optional<std::size_t> Stream::deliver_sealed(std::span<const std::byte> bytes) {
  std::size_t taken = 0;
  if (!cipher_begun_) {
    RecordCipher::Header header;
    if (bytes.size() < header.size()) return 0;
    std::copy_n(bytes.begin(), header.size(), header.begin());
    cipher_->begin(header);
    cipher_begun_ = true;
    taken = header.size();
  }
  while (bytes.size() - taken >= kHeader) {
    const auto rest = bytes.subspan(taken);
    const std::size_t length =
        std::to_integer<std::size_t>(rest[0]) | std::to_integer<std::size_t>(rest[1]) << 8;
    if (length < kHeader + RecordCipher::kOverhead || length > kMostSealed) return end_changed();
    if (rest.size() < kHeader + length) break;
    std::array<std::byte, kMostFrame> plain;
    const auto frame = std::span(plain).first(length - RecordCipher::kOverhead);
    if (!cipher_->open(rest.subspan(kHeader, length), frame)) return end_changed();
    const auto of_frame = deliver_frames(frame);
    if (!of_frame) return std::nullopt;
    if (*of_frame != frame.size()) {
      end(How::broken, "what it sent is malformed");
      return std::nullopt;
    }
    taken += kHeader + length;
  }
  return taken;
}

/// How many bytes were whole frames; none: the connection is closed.
std::optional<std::size_t> Stream::deliver_frames(std::span<const std::byte> bytes) {
  const std::size_t all = bytes.size();
  while (bytes.size() >= kHeader) {
    const std::size_t length =
        std::to_integer<std::size_t>(bytes[0]) | std::to_integer<std::size_t>(bytes[1]) << 8;
    if (length == kEnd) {
      end(How::orderly, "it left");
      return std::nullopt;
    }
    if (length == kGivenUp) {
      if (bytes.size() < 2 * kHeader) break;
      const std::size_t size =
          std::to_integer<std::size_t>(bytes[2]) | std::to_integer<std::size_t>(bytes[3]) << 8;
      if (size <= kMaxMessage && bytes.size() < 2 * kHeader + size) break;
      if (size <= kMaxMessage) {
        const auto* text = reinterpret_cast<const char*>(bytes.data()) + 2 * kHeader;
        end(How::given_up, size > 0 ? std::string(text, size) : "it has given this rank up");
        return std::nullopt;
      }
    }
    if (const auto call = call_of(length)) {
      bytes = bytes.subspan(kHeader);
      events_.beat_called(*call);
      if (!is_open() || given_up_) return std::nullopt;
      continue;
    }
    if (length > kMaxMessage) {
      end(How::broken, "what it sent is malformed");
      return std::nullopt;
    }
    if (bytes.size() < kHeader + length) break;
    const auto message = bytes.subspan(kHeader, length);
    bytes = bytes.subspan(kHeader + length);
    if (length == 0) continue;
    events_.said(message);
    if (!is_open() || given_up_) return std::nullopt;
  }
  return all - bytes.size();
}

int Stream::tick(bool sign_is_due) {
  // Bytes that wait in the queue are not yet a sign of life, but a peer that reads will get them.
  if (sign_is_due && !spoke_ && queue_.empty()) send_sign_of_life();
  spoke_ = false;
  // Bytes that have come but waited for this thread are a sign of life of the peer.
  if (!heard_) receive();
  silent_periods_ = heard_ ? 0 : silent_periods_ + 1;
  heard_ = false;
  return silent_periods_;
}

void Stream::close() noexcept {
  if (!is_open()) return;
  // A fork of this process may hold the connection too; closing alone would not end it.
  if (said_end_) {
    // Closed with something unread, the end would not be sent again if it is lost.
    std::array<std::byte, kScratch> unread;
    while (::recv(socket_.get(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
    }
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  socket_ = Watched();
  partial_ = {};
  queue_ = {};
}

void Stream::end(How how, const std::string& why) {
  close();
  if (!given_up_) events_.ended(how, why);
}

}  // namespace weft::p2p
