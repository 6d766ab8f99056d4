#include "p2p/transport/tcp/pipe.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "p2p/transport/tcp/sealed.hpp"

namespace weft::p2p::tcp {
namespace {

constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

msghdr header_of(std::span<const iovec> parts) noexcept {
  msghdr header{};
  header.msg_iov = const_cast<iovec*>(parts.data());
  header.msg_iovlen = parts.size();
  return header;
}

bool is_pause(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
}

ssize_t send_message(int fd, const msghdr& header, [[maybe_unused]] Pipe::Memory memory) noexcept {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer would report what the receiver recognises and reads again.
  if (memory == Pipe::Memory::unproved) return ::syscall(SYS_sendmsg, fd, &header, kSendFlags);
#endif
  return ::sendmsg(fd, &header, kSendFlags);
}

/// Up to this size bytes are sent from one place: a copy costs less than the kernel's care for
/// a list of places.
constexpr std::size_t kFew = 256;

std::size_t bytes_of(std::span<const iovec> parts) noexcept {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

ssize_t send_few(int fd, std::span<const iovec> parts) noexcept {
  std::array<std::byte, kFew> together;
  std::size_t bytes = 0;
  for (const iovec& part : parts) {
    if (part.iov_len > 0) std::memcpy(together.data() + bytes, part.iov_base, part.iov_len);
    bytes += part.iov_len;
  }
  return ::send(fd, together.data(), bytes, kSendFlags);
}

Pipe::Moved send_plain(int fd, std::span<const iovec> parts, Pipe::Memory memory) noexcept {
  const bool few = memory == Pipe::Memory::settled && bytes_of(parts) <= kFew;
  const msghdr header = header_of(parts);
  ssize_t sent = 0;
  do sent = few ? send_few(fd, parts) : send_message(fd, header, memory);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {.bytes = static_cast<std::size_t>(sent)};
  return {.error = is_pause(errno) ? 0 : errno};
}

Pipe::Moved receive_plain(int fd, std::span<const iovec> parts) noexcept {
  msghdr header = header_of(parts);
  ssize_t got = 0;
  const bool one = parts.size() == 1;
  do
    got = one ? ::recv(fd, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT)
              : ::recvmsg(fd, &header, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got > 0) return {.bytes = static_cast<std::size_t>(got)};
  if (got == 0) return {.end = true};
  return {.error = is_pause(errno) ? 0 : errno};
}

}  // namespace

struct Pipe::Sealed {
  explicit Sealed(RecordCipher cipher) : out(cipher), in(cipher), streams(std::move(cipher)) {}
  SealedOut out;
  SealedIn in;
  RecordCipher streams;
};

Pipe::Pipe(os::Fd out, os::Fd in) noexcept : out_(std::move(out)), in_(std::move(in)) {}
Pipe::Pipe(os::Fd socket, RecordCipher cipher)
    : out_(std::move(socket)), sealed_(std::make_unique<Sealed>(std::move(cipher))) {}
Pipe::~Pipe() = default;
Pipe::Pipe(Pipe&&) noexcept = default;
Pipe& Pipe::operator=(Pipe&&) noexcept = default;

bool Pipe::has_room() const noexcept {
  pollfd room{out(), POLLOUT, 0};
  return ::poll(&room, 1, 0) > 0;
}

void Pipe::expect(std::size_t bytes) noexcept {
  if (bytes == expected_ || sealed_) return;
  const int threshold = static_cast<int>(bytes);
  if (::setsockopt(in(), SOL_SOCKET, SO_RCVLOWAT, &threshold, sizeof threshold) == 0)
    expected_ = bytes;
}

bool Pipe::has_enough() const noexcept {
  if (expected_ == 1) return true;  // a receive tells
  pollfd there{in(), POLLIN, 0};
  return ::poll(&there, 1, 0) > 0;
}

bool Pipe::holds() const noexcept { return sealed_ && !sealed_->out.waiting().empty(); }
bool Pipe::has_received() const noexcept { return sealed_ && sealed_->in.has_plain(); }

Pipe::Moved Pipe::send(std::span<const iovec> parts, Memory memory) noexcept {
  if (!sealed_) return send_plain(out(), parts, memory);
  Moved moved;
  for (;;) {
    if (const auto waiting = sealed_->out.waiting(); !waiting.empty()) {
      const iovec part{const_cast<std::byte*>(waiting.data()), waiting.size()};
      const Moved sent = send_plain(out(), std::span(&part, 1), Memory::settled);
      moved.error = sent.error;
      sealed_->out.sent(sent.bytes);
      if (sent.bytes < waiting.size()) return moved;
    }
    const std::size_t taken = sealed_->out.seal(sealed_->streams, parts, moved.bytes);
    if (taken == 0) return moved;
    moved.bytes += taken;
  }
}

Pipe::Moved Pipe::receive(std::span<const iovec> parts) noexcept {
  if (!sealed_) return receive_plain(in(), parts);
  Moved moved;
  for (;;) {
    moved.bytes += sealed_->in.take(parts, moved.bytes);
    if (sealed_->in.has_plain()) return moved;  // there is no room for more
    if (!sealed_->in.open(sealed_->streams)) {
      moved.error = EBADMSG;
      return moved;
    }
    if (sealed_->in.has_plain()) continue;
    const auto room = sealed_->in.room();
    const iovec part{room.data(), room.size()};
    const Moved got = receive_plain(in(), std::span(&part, 1));
    if (got.bytes == 0) {
      // Decrypted bytes that are left over are handed over first.
      if (moved.bytes == 0) moved = got;
      return moved;
    }
    sealed_->in.received(got.bytes);
  }
}

void Pipe::shut() noexcept {
  if (out_) ::shutdown(out_.get(), SHUT_RDWR);
  if (in_) ::shutdown(in_.get(), SHUT_RDWR);
}

}  // namespace weft::p2p::tcp
