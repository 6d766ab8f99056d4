#include "benchmarks/limits/bare_stream.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
  const auto ips = p2p::choose_ip_addresses(p2p::interfaces(), "auto").ips;
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

constexpr std::size_t kKi = 1024;

/// A way to exchange: no more than `ahead` bytes are sent beyond those received, so that the data
/// under way stay in the processors' caches.
struct ExchangeWay {
  const char* name;
  std::size_t least_size;  ///< of a tensor for which this way differs from the ones before
  std::size_t ahead;
  bool by_file = false;  ///< the socket gets the pages of a file in memory, no copy
};
constexpr std::array kExchangeWays{ExchangeWay{"unbounded", 0, SIZE_MAX},
                                   ExchangeWay{"file", 64 * kKi, SIZE_MAX, true},
                                   ExchangeWay{"ahead_64k", 64 * kKi + 1, 64 * kKi},
                                   ExchangeWay{"ahead_256k", 256 * kKi + 1, 256 * kKi},
                                   ExchangeWay{"ahead_1m", kKi* kKi + 1, kKi* kKi}};

/// A way to send and to receive.
struct SendWay {
  const char* name;
  std::size_t least_size;  ///< of a tensor for which this way differs from the ones before
  std::size_t at_once;     ///< bytes of one call
  std::size_t low_water;   ///< bytes for which the receiver sleeps; 0: it sleeps in recv()
  int flags;
  bool by_file = false;  ///< the socket gets the pages of a file in memory, no copy
};
constexpr std::array kSendWays{SendWay{"whole", 0, SIZE_MAX, 0, 0},
                               SendWay{"polled", 0, SIZE_MAX, 0, MSG_DONTWAIT},
                               SendWay{"low_water", 64 * kKi, SIZE_MAX, 256 * kKi, 0},
                               SendWay{"file", 64 * kKi, SIZE_MAX, 0, MSG_DONTWAIT, true},
                               SendWay{"pieces", 128 * kKi + 1, 128 * kKi, 0, 0}};

/// The names of the first ways, which are those for tensors of `size` bytes.
template <typename Ways>
LimitWays ways_for(const Ways& ways, std::size_t size) {
  std::vector<std::string> names;
  for (const auto& way : ways)
    if (size >= way.least_size) names.emplace_back(way.name);
  return LimitWays(std::move(names));
}

/// The bytes that a call has moved; 0 if it has to be repeated.
std::size_t moved(ssize_t result, const char* what) {
  if (result == 0 || (result < 0 && errno != EINTR && errno != EAGAIN))
    os::throw_system_error("bench", what);
  return static_cast<std::size_t>(std::max<ssize_t>(result, 0));
}

}  // namespace

BareStream::BareStream(World& world, int other)
    : leads_(world.rank() == 0), socket_(leads_ ? client(world, other) : server(world)) {
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

BareStream::~BareStream() {
  if (!buffer_.empty()) ::munmap(buffer_.data(), buffer_.size());
}

LimitWays BareStream::ways_to_send(std::size_t size) { return ways_for(kSendWays, size); }
LimitWays BareStream::ways_to_exchange(std::size_t size) { return ways_for(kExchangeWays, size); }

void BareStream::put(const std::byte* from, std::size_t bytes, std::size_t at_once, int flags) {
  while (bytes > 0) {
    const std::size_t sent =
        moved(::send(socket_.get(), from, std::min(bytes, at_once), MSG_NOSIGNAL | flags), "send");
    from += sent;
    bytes -= sent;
  }
}

void BareStream::make_room(std::size_t bytes) {
  if (bytes <= buffer_.size()) return;
  if (!buffer_.empty()) ::munmap(buffer_.data(), buffer_.size());
  buffer_ = {};
  file_ = os::Fd(::memfd_create("bare stream", MFD_CLOEXEC));
  if (!file_ || ::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
    os::throw_system_error("bench", "memfd_create");
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_.get(), 0);
  if (at == MAP_FAILED) os::throw_system_error("bench", "mmap");
  buffer_ = {static_cast<std::byte*>(at), bytes};
}

void BareStream::sleeps_in_calls(bool sleeps) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (::fcntl(socket_.get(), F_SETFL, sleeps ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) != 0)
    os::throw_system_error("bench", "fcntl");
}

std::size_t BareStream::put_file(std::size_t from, std::size_t bytes) {
  auto offset = static_cast<off_t>(from);
  return moved(::sendfile(socket_.get(), file_.get(), &offset, bytes), "sendfile");
}

void BareStream::take(std::byte* to, std::size_t bytes, std::size_t at_once, int flags) {
  while (bytes > 0) {
    const std::size_t got =
        moved(::recv(socket_.get(), to, std::min(bytes, at_once), flags), "recv");
    to += got;
    bytes -= got;
  }
}

void BareStream::take_above_low_water(std::byte* to, std::size_t bytes, std::size_t low_water) {
  while (bytes > 0) {
    // recv() itself would take what is there and then sleep for as much again.
    set_low_water(std::min(bytes, low_water));
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, -1) < 0 && errno != EINTR) os::throw_system_error("bench", "poll");
    const std::size_t got = moved(::recv(socket_.get(), to, bytes, MSG_DONTWAIT), "recv");
    to += got;
    bytes -= got;
  }
}

void BareStream::set_low_water(std::size_t bytes) {
  if (bytes == low_water_) return;
  low_water_ = bytes;
  const int value = static_cast<int>(bytes);
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value) != 0)
    os::throw_system_error("bench", "SO_RCVLOWAT");
}

void BareStream::put_word(std::uint64_t word) {
  std::byte bytes[sizeof word];
  std::memcpy(bytes, &word, sizeof word);
  put(bytes, sizeof word, SIZE_MAX, 0);
}

std::uint64_t BareStream::take_word(int flags) {
  std::byte bytes[sizeof(std::uint64_t)];
  take(bytes, sizeof bytes, SIZE_MAX, flags);
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::vector<double> BareStream::pings(std::uint32_t count) {
  std::vector<double> samples;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto start = Timer::now();
    if (!leads_) (void)take_word(MSG_DONTWAIT);
    put_word(i);
    if (leads_) (void)take_word(MSG_DONTWAIT);
    samples.push_back(microseconds_since(start) / 2);
  }
  return samples;
}

template <typename Run>
void BareStream::try_each(std::uint32_t count, LimitWays& ways, Run&& run) {
  constexpr std::uint64_t kDone = ~std::uint64_t{0};
  if (!leads_) {
    for (std::uint64_t way = take_word(0); way != kDone; way = take_word(0)) run(way);
    return;
  }
  const std::size_t first = round_++;
  for (std::size_t i = 0; i < ways.count(); ++i) {
    const std::size_t way = (first + i) % ways.count();
    if (ways.is_dropped(way)) continue;
    put_word(way);
    const auto start = Timer::now();
    run(way);
    ways.add(way, microseconds_since(start) / count);
  }
  put_word(kDone);
  ways.drop_slow();
}

void BareStream::swap(std::size_t bytes, std::size_t ahead, bool by_file) {
  const std::byte* const from = buffer_.data();
  std::byte* const to = buffer_.data() + bytes;
  std::size_t sent = 0;
  std::size_t got = 0;
  while (got < bytes || sent < bytes) {
    const std::size_t bound = ahead < bytes - got ? got + ahead : bytes;
    if (bound > sent && by_file)
      sent += put_file(sent, bound - sent);
    else if (bound > sent)
      sent += moved(::send(socket_.get(), from + sent, bound - sent, MSG_NOSIGNAL | MSG_DONTWAIT),
                    "send");
    if (got < bytes)
      got += moved(::recv(socket_.get(), to + got, bytes - got, MSG_DONTWAIT), "recv");
  }
}

void BareStream::exchange(std::size_t size, std::uint32_t count, LimitWays& ways) {
  make_room(2 * size);
  try_each(count, ways, [&](std::size_t way) {
    for (std::uint32_t i = 0; i < count; ++i) {
      std::fill_n(buffer_.data(), size, static_cast<std::byte>(i));
      // sendfile() has no flag for one call.
      if (kExchangeWays.at(way).by_file) sleeps_in_calls(false);
      swap(size, kExchangeWays.at(way).ahead, kExchangeWays.at(way).by_file);
      if (!kExchangeWays.at(way).by_file) continue;
      sleeps_in_calls(true);
      put_word(i);  // the other rank may write its memory
      (void)take_word(MSG_DONTWAIT);
    }
  });
}

void BareStream::send(std::size_t size, std::uint32_t count, LimitWays& ways) {
  make_room(size);
  try_each(count, ways, [&](std::size_t number) {
    const SendWay& way = kSendWays.at(number);
    for (std::uint32_t i = 0; i < count; ++i)
      if (leads_ && way.by_file)
        for (std::size_t sent = 0; sent < size;) sent += put_file(sent, size - sent);
      else if (leads_)
        put(buffer_.data(), size, way.at_once, way.flags);
      else if (way.low_water > 0)
        take_above_low_water(buffer_.data(), size, way.low_water);
      else
        take(buffer_.data(), size, way.at_once, way.flags);
    if (leads_) {
      (void)take_word(0);
      return;
    }
    put_word(0);
    set_low_water(1);
  });
}

}  // namespace weft::bench
