#include "benchmarks/limits/seqpacket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "base/os/system_error.hpp"

namespace weft::bench {
namespace {

constexpr const char* kWhat = "the limit's socket";

os::Fd make_socket() {
  os::Fd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made) os::throw_system_error("socket", kWhat);
  return made;
}

// The kernel picks an unused abstract name of a NUL and five digits, which fits a flag's payload.
os::Fd accept_one(const SharedMemory& bare) {
  const os::Fd listening = make_socket();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address.sun_family);
  if (::bind(listening.get(), plain, length) != 0) os::throw_system_error("bind", kWhat);
  if (::listen(listening.get(), 1) != 0) os::throw_system_error("listen", kWhat);
  length = sizeof address;
  if (::getsockname(listening.get(), plain, &length) != 0)
    os::throw_system_error("getsockname", kWhat);
  FlagLine& line = bare.flags().ping;
  std::memcpy(&line.payload[0], address.sun_path, sizeof line.payload[0]);
  line.payload[1] = length;
  raise_to(line, 1);
  os::Fd accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted) os::throw_system_error("accept", kWhat);
  return accepted;
}

os::Fd connect_to(const SharedMemory& bare) {
  const FlagLine& line = bare.their_flags().ping;
  await(line, 1, bare.idle());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, &line.payload[0], sizeof line.payload[0]);
  os::Fd connected = make_socket();
  if (::connect(connected.get(), reinterpret_cast<const sockaddr*>(&address),
                static_cast<socklen_t>(line.payload[1])) != 0)
    os::throw_system_error("connect", kWhat);
  return connected;
}

}  // namespace

Seqpacket::Seqpacket(const SharedMemory& bare, bool leads)
    : leads_(leads), socket_(leads ? connect_to(bare) : accept_one(bare)) {}

void Seqpacket::run(std::uint32_t round_trips) {
  for (std::uint32_t i = 0; i < round_trips; ++i)
    leads_ ? (send(), receive()) : (receive(), send());
}

void Seqpacket::send() {
  constexpr std::array<std::byte, kMessageBytes> kMessage{};
  if (::send(socket_.get(), kMessage.data(), kMessage.size(), MSG_NOSIGNAL) < 0)
    os::throw_system_error("send", kWhat);
}

void Seqpacket::receive() {
  std::array<std::byte, kMessageBytes> message;
  const ssize_t size = ::recv(socket_.get(), message.data(), message.size(), 0);
  if (size < 0) os::throw_system_error("recv", kWhat);
  if (size == 0) throw std::runtime_error("the limit's socket was closed by the other rank");
}

}  // namespace weft::bench
