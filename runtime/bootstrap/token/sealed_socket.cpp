#include "runtime/bootstrap/token/sealed_socket.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::bootstrap {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths travel in little-endian order");

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

void SealedSocket::send(std::span<const std::byte> record, Deadline deadline) {
  std::vector<std::byte> out;
  if (!sent_header_) out.assign(cipher_.header().begin(), cipher_.header().end());
  sent_header_ = true;
  const std::size_t sealed = record.size() + p2p::RecordCipher::kOverhead;
  const auto length = static_cast<std::uint32_t>(sealed);
  const auto prefix = std::as_bytes(std::span(&length, 1));
  out.insert(out.end(), prefix.begin(), prefix.end());
  out.resize(out.size() + sealed);
  cipher_.seal(record, std::span(out).last(sealed));
  write(out, deadline);
}

std::vector<std::byte> SealedSocket::receive(std::size_t most, Deadline deadline) {
  if (!has_header_) {
    p2p::RecordCipher::Header header{};
    read(header, deadline);
    cipher_.begin(header);
    has_header_ = true;
  }
  const auto sealed = receive_as_it_is(most + p2p::RecordCipher::kOverhead, deadline);
  if (sealed.size() < p2p::RecordCipher::kOverhead)
    throw_error(Code::bootstrap, "join", "the record is malformed");
  std::vector<std::byte> record(sealed.size() - p2p::RecordCipher::kOverhead);
  if (!cipher_.open(sealed, record))
    throw_error(Code::bootstrap, "join", "the record was changed on its way");
  return record;
}

void SealedSocket::send_as_it_is(std::span<const std::byte> bytes, Deadline deadline) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  write(std::as_bytes(std::span(&length, 1)), deadline);
  write(bytes, deadline);
}

std::vector<std::byte> SealedSocket::receive_as_it_is(std::size_t most, Deadline deadline) {
  std::uint32_t length = 0;
  read(std::as_writable_bytes(std::span(&length, 1)), deadline);
  if (length > most) throw_error(Code::bootstrap, "join", "the record is malformed");
  std::vector<std::byte> bytes(length);
  read(bytes, deadline);
  return bytes;
}

bool SealedSocket::is_open() const noexcept {
  pollfd at{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&at, 1, 0) == 0;
}

void SealedSocket::write(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    else if (sent < 0 && must_wait())
      wait_for(POLLOUT, deadline);
    else if (sent < 0 && errno != EINTR)
      throw_error(Code::bootstrap, "join", "its connection broke: " + os::words(errno));
  }
}

void SealedSocket::read(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    else if (got == 0)
      throw_error(Code::bootstrap, "join", "its connection was closed: the process ended");
    else if (must_wait())
      wait_for(POLLIN, deadline);
    else if (errno != EINTR)
      throw_error(Code::bootstrap, "join", "its connection broke: " + os::words(errno));
  }
}

void SealedSocket::wait_for(short events, Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  if (left <= 0) throw_error(Code::timeout, "join", "no data arrived in time");
  pollfd at{.fd = socket_.get(), .events = events, .revents = 0};
  // The next send or recv reports the outcome.
  (void)::poll(&at, 1,
               static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max())));
}

}  // namespace weft::bootstrap
