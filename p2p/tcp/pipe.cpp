#include "p2p/tcp/pipe.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "p2p/tcp/sealed.hpp"

namespace weft::p2p::tcp {
namespace {

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
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer would report what the receiver recognises and reads again.
  if (memory == Pipe::Memory::unproved) return ::syscall(SYS_sendmsg, fd, &header, kFlags);
#endif
  return ::sendmsg(fd, &header, kFlags);
}

Pipe::Moved send_plain(int fd, std::span<const iovec> parts, Pipe::Memory memory) noexcept {
  const msghdr header = header_of(parts);
  ssize_t sent = 0;
  do sent = send_message(fd, header, memory);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {.bytes = static_cast<std::size_t>(sent)};
  return {.error = is_pause(errno) ? 0 : errno};
}

Pipe::Moved receive_plain(int fd, std::span<const iovec> parts) noexcept {
  msghdr header = header_of(parts);
  ssize_t got = 0;
  do got = ::recvmsg(fd, &header, MSG_DONTWAIT);
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
      // What was opened first is handed over first.
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
