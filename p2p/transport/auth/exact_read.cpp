#include "p2p/transport/auth/exact_read.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace weft::p2p {

ExactRead::State ExactRead::read(int fd, std::size_t size) noexcept {
  while (have_ < size) {
    const ssize_t got = ::recv(fd, bytes_.data() + have_, size - have_, MSG_DONTWAIT);
    if (got > 0)
      have_ += static_cast<std::size_t>(got);
    else if (got == 0)
      return State::closed;
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      return State::incomplete;
    else if (errno != EINTR)
      return State::failed;
  }
  return State::complete;
}

bool send_record(int fd, std::span<const std::byte> record) noexcept {
  for (;;) {
    const ssize_t sent = ::send(fd, record.data(), record.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == static_cast<ssize_t>(record.size())) return true;
    if (sent >= 0) errno = ENOBUFS;
    if (errno != EINTR) return false;
  }
}

}  // namespace weft::p2p
