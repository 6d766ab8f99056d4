#include "benchmarks/limits/bare_stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/os/system_error.hpp"
#include "p2p/transport/address/ip_address.hpp"

namespace weft::bench {
namespace {

using Timer = std::chrono::steady_clock;

double microseconds_since(Timer::time_point start) {
  return std::chrono::duration<double, std::micro>(Timer::now() - start).count();
}

/// Address on which the other rank listens, sent as a published tensor.
struct ListenerAddress {
  p2p::IpAddress ip{};
  std::int64_t port = 0;
};

PublishedSpec listener_address_spec() {
  return {.name = "bare stream",
          .dtype = DType::u8,
          .shape = Shape{static_cast<std::int64_t>(sizeof(ListenerAddress))}};
}

os::Fd make_socket(const p2p::IpAddress& ip) {
  os::Fd socket(::socket(p2p::is_ipv4(ip) ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) os::throw_system_error("bench", "socket");
  return socket;
}

os::Fd server(World& world) {
  const auto ips = p2p::choose_ip_addresses(p2p::interface_addresses(), "auto");
  ListenerAddress listener_address{.ip = ips.at(0)};
  const os::Fd listener = make_socket(listener_address.ip);
  p2p::SocketAddress own = p2p::socket_address(listener_address.ip, 0);
  if (::bind(listener.get(), own.get(), own.size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), own.get(), &own.size) != 0)
    os::throw_system_error("bench", "listen");
  listener_address.port = ntohs(reinterpret_cast<const sockaddr_in*>(own.get())->sin_port);
  PublishedSlot slot = world.expose_published(listener_address_spec());
  std::memcpy(slot.next().value().data(), &listener_address, sizeof listener_address);
  slot.publish().or_throw();
  os::Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) os::throw_system_error("bench", "accept");
  return socket;
}

os::Fd client(World& world, int other) {
  PublishedReader remote = world.attach_published(other, listener_address_spec());
  ListenerAddress listener_address;
  {
    const Arrival arrival = remote.view().value();
    std::memcpy(&listener_address, arrival.tensor().data(), sizeof listener_address);
  }
  os::Fd socket = make_socket(listener_address.ip);
  const auto there =
      p2p::socket_address(listener_address.ip, static_cast<std::uint16_t>(listener_address.port));
  if (::connect(socket.get(), there.get(), there.size) != 0)
    os::throw_system_error("bench", "connect");
  return socket;
}

}  // namespace

BareStream::BareStream(World& world, int other)
    : leads_(world.rank() == 0), socket_(leads_ ? client(world, other) : server(world)) {
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void BareStream::put(const std::byte* from, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(socket_.get(), from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) os::throw_system_error("bench", "send");
    if (sent <= 0) continue;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

void BareStream::take(std::byte* to, std::size_t bytes, int flags) {
  while (bytes > 0) {
    const ssize_t got = ::recv(socket_.get(), to, bytes, flags);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
      os::throw_system_error("bench", "recv");
    if (got < 0) continue;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

std::vector<double> BareStream::pings(std::uint32_t count) {
  std::byte word[8]{};
  std::vector<double> samples;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto start = Timer::now();
    if (!leads_) take(word, sizeof word, MSG_DONTWAIT);
    put(word, sizeof word);
    if (leads_) take(word, sizeof word, MSG_DONTWAIT);
    samples.push_back(microseconds_since(start) / 2);
  }
  return samples;
}

void BareStream::swap(const std::byte* from, std::byte* to, std::size_t bytes) {
  // Limits the data under way, so that it stays in the processors' caches.
  constexpr std::size_t kAhead = 256u << 10;
  const auto moved = [](ssize_t result) {
    if (result == 0 || (result < 0 && errno != EINTR && errno != EAGAIN))
      os::throw_system_error("bench", "exchange");
    return static_cast<std::size_t>(std::max<ssize_t>(result, 0));
  };
  std::size_t sent = 0;
  std::size_t got = 0;
  while (got < bytes || sent < bytes) {
    if (const std::size_t some = std::min(bytes, got + kAhead) - sent; some > 0)
      sent += moved(::send(socket_.get(), from + sent, some, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (got < bytes) got += moved(::recv(socket_.get(), to + got, bytes - got, MSG_DONTWAIT));
  }
}

double BareStream::exchange(std::size_t size, std::uint32_t count) {
  buffer_.resize(std::max(buffer_.size(), 2 * size));
  const auto start = Timer::now();
  for (std::uint32_t i = 0; i < count; ++i) {
    std::fill_n(buffer_.data(), size, static_cast<std::byte>(i));
    swap(buffer_.data(), buffer_.data() + size, size);
  }
  return microseconds_since(start) / count;
}

double BareStream::send(std::size_t size, std::uint32_t count) {
  std::byte word[8]{};
  buffer_.resize(std::max(buffer_.size(), size));
  const auto start = Timer::now();
  for (std::uint32_t i = 0; i < count; ++i)
    leads_ ? put(buffer_.data(), size) : take(buffer_.data(), size, 0);
  leads_ ? take(word, sizeof word, 0) : put(word, sizeof word);
  return microseconds_since(start) / count;
}

}  // namespace weft::bench
