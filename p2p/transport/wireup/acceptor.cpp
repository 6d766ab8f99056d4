#include "p2p/transport/wireup/acceptor.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/os/descriptor_limit.hpp"
#include "base/os/system_error.hpp"

namespace weft::p2p {
namespace {

constexpr int kBacklog = 4096;  // a job's ranks may all call at once
constexpr int kPortTrials = 16;
/// Until others get their turn on the thread.
constexpr int kAdmittedAtATime = 32;
/// Descriptors that unauthenticated clients must leave free, besides one for each rank.
constexpr std::size_t kSpareDescriptors = 16;
constexpr std::chrono::seconds kRecovery{1};  // until descriptors are asked for again

os::Fd make_listener(const IpAddress& ip) {
  const int family = is_ipv4(ip) ? AF_INET : AF_INET6;
  os::Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) os::throw_system_error("join", "socket");
  const int on = 1;
  if (family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  return socket;
}

/// Addresses that one caller may take in turn are one source: of IPv6 a network of 64 bits, of IPv4
/// the loopback network.
PendingConnections::Source source_of(const IpAddress& ip) {
  PendingConnections::Source source = ip;
  if (!is_ipv4(ip)) std::fill(source.begin() + 8, source.end(), std::byte{0});
  if (is_ipv4(ip) && ip[12] == std::byte{127})
    std::fill(source.begin() + 13, source.end(), std::byte{0});
  return source;
}

/// Before the connection is closed. Bytes that have come and were not read would take it back.
template <typename Record>
void send_last(int fd, const Record& record) {
  (void)send_record(fd, record);
  std::array<std::byte, 512> unread;
  (void)::recv(fd, unread.data(), unread.size(), MSG_DONTWAIT);
  ::shutdown(fd, SHUT_WR);
}

std::uint16_t port_of(int fd) {
  SocketAddress own;
  if (::getsockname(fd, own.get(), &own.size) != 0) os::throw_system_error("join", "getsockname");
  // The port lies at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(own.get())->sin_port);
}

}  // namespace

Acceptor::Acceptor(ProgressThread& progress, Log& log, RejectedConnections& rejected_connections,
                   std::chrono::nanoseconds patience, Events events, CongestionControl congestion)
    : progress_(progress),
      log_(log),
      rejected_connections_(rejected_connections),
      congestion_(std::move(congestion)),
      patience_(patience),
      events_(std::move(events)) {}

std::uint16_t Acceptor::listen(const std::vector<IpAddress>& ips, std::uint16_t port) {
  // The kernel draws a port at the first address; another process may have it at the next.
  for (int i = 0; i < kPortTrials; ++i)
    if (try_listen(ips, port)) return port_;
  os::throw_system_error("join", "a port that is free at every address of this host", EADDRINUSE);
}

bool Acceptor::try_listen(const std::vector<IpAddress>& ips, std::uint16_t wanted) {
  unopened_.clear();
  port_ = wanted;
  for (const IpAddress& ip : ips) {
    os::Fd socket = make_listener(ip);
    congestion_.apply(socket.get());
    // Connections that an earlier job left at this port are no reason to wait.
    const int on = 1;
    if (wanted != 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const SocketAddress address = socket_address(ip, port_);
    if (::bind(socket.get(), address.get(), address.size) != 0 ||
        ::listen(socket.get(), kBacklog) != 0) {
      if (errno == EADDRINUSE && port_ != wanted) return false;
      os::throw_system_error("join", "listening at " + (port_ == 0 ? text(ip) : text(ip, port_)));
    }
    if (port_ == 0) port_ = port_of(socket.get());
    unopened_.push_back(std::move(socket));
  }
  return true;
}

void Acceptor::open(const Identity& identity) {
  identity_ = identity;
  for (os::Fd& socket : unopened_) {
    const int fd = socket.get();
    listeners_.emplace_back(progress_, std::move(socket), EPOLLIN,
                            [this, fd](std::uint32_t) { admit(fd); });
  }
  unopened_.clear();
}

void Acceptor::admit(int listener) {
  for (int i = 0; i < kAdmittedAtATime && !paused_; ++i) {
    SocketAddress from;
    os::Fd socket(::accept4(listener, from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      take_in(std::move(socket), ip_address_of(*from.get()));
      continue;
    }
    // A connection may have broken before it was accepted.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || make_room(errno)) continue;
    return;
  }
}

/// Whether accepting may be tried again after this error.
bool Acceptor::make_room(int error) {
  if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return false;
  if (error == EMFILE || error == ENFILE) os::note_descriptor_shortage();
  if (const auto pending = pending_.spare()) {
    crowd_out(*pending, true);
    return true;
  }
  pause();  // or it would be asked without end
  events_.short_of(Error(ErrorDetail{
      .code = Code::exhausted,
      .operation = "connect",
      .message = fmt::format("accepting a rank's connection: {}", os::words(error)),
      .hint = "raise the limit of open files (ulimit -n): a rank needs one for each rank of "
              "another host"}));
  return false;
}

void Acceptor::take_in(os::Fd socket, const IpAddress& from) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int fd = socket.get();
  const Id id = pending_.enter(source_of(from));
  try {
    pending_connections_[id] = {.socket = Watched(progress_, std::move(socket), EPOLLIN,
                                                  [this, id](std::uint32_t) { on_bytes(id); }),
                                .from = from,
                                .handshake = {},
                                .answer = {},
                                .in = {}};
  } catch (const Error& error) {
    release(id);
    pause();
    return events_.short_of(error);
  }
  events_.wants_ticks();
  on_bytes(
      id);  // a rank's handshake is there as a rule, and must be heard before others crowd it out
  keep_within_limits(fd);
}

/// `newest`: the descriptor of the connection that came last. The kernel gives the lowest number
/// that is free, so those above it are all that may be left.
void Acceptor::keep_within_limits(int newest) {
  const auto ranks = static_cast<std::size_t>(identity_.job_size());
  const bool is_scarce =
      static_cast<std::size_t>(newest) + ranks + kSpareDescriptors >= os::descriptor_limit();
  const PendingConnections::Limits limits =
      is_scarce ? PendingConnections::Limits{.silent = 1, .spoken = ranks}
                : PendingConnections::Limits{.silent = kMaxPendingConnections,
                                             .spoken = kMaxPendingConnections + ranks};
  while (const auto pending = pending_.surplus(limits)) {
    if (is_scarce) os::note_descriptor_shortage();
    crowd_out(*pending, is_scarce);
  }
}

void Acceptor::on_bytes(Id id) {
  PendingConnection& pending = pending_connections_.at(id);
  const int fd = pending.socket.get();
  const std::size_t wanted = pending.answered      ? sizeof(Proof)
                             : pending.speaks_ours ? sizeof(Handshake)
                                                   : sizeof(Handshake::Protocol);
  switch (pending.in.read(fd, wanted)) {
    case ExactRead::State::incomplete:
      return;
    case ExactRead::State::failed:
    case ExactRead::State::closed:
      // A port scan; or a rank that met this one by another of its places.
      log_.debug(Subsystem::path, "a connection from {} ended before it said which rank it is",
                 text(pending.from));
      return release(id);
    case ExactRead::State::complete:
      break;
  }
  if (pending.answered) return on_proof(id, pending);
  pending.speaks_ours ? on_handshake(id, pending) : on_protocol(id, pending);
}

void Acceptor::on_protocol(Id id, PendingConnection& pending) {
  const auto protocol = pending.in.peek<Handshake::Protocol>();
  const std::string reason = Identity::validate(protocol);
  if (reason.empty()) {
    pending.speaks_ours = true;
    return on_bytes(id);
  }
  if (protocol.magic == Handshake::kMagic) send_last(pending.socket.get(), Handshake{}.protocol);
  reject(id, reason);
}

void Acceptor::on_handshake(Id id, PendingConnection& pending) {
  pending.handshake = pending.in.take<Handshake>();
  if (const std::string reason = identity_.validate(pending.handshake); !reason.empty()) {
    if (identity_.is_of_other_job(pending.handshake))
      send_last(pending.socket.get(), identity_.answer(pending.handshake));
    return reject(id, reason);
  }
  pending.answer = identity_.answer(pending.handshake);
  pending.answered = true;
  pending_.spoke(id);
  if (!send_record(pending.socket.get(), pending.answer)) release(id);
}

void Acceptor::on_proof(Id id, PendingConnection& pending) {
  if (!identity_.verify(pending.handshake, pending.answer, pending.in.take<Proof>()))
    return reject(id, "it does not know the job's secret");
  const Handshake client = pending.handshake;
  const Handshake own = pending.answer.handshake;
  os::Fd socket = pending.socket.release();
  const std::string from = text(pending.from);
  release(id);
  const std::string reason = events_.came(client, own, socket);
  if (reason.empty()) return;
  if (socket && send_record(socket.get(), Refusal::kMark))
    send_last(socket.get(), Refusal::of(reason));
  log_.debug(Subsystem::path, "the connection of rank {} from {} is refused: {}", client.from, from,
             reason);
}

bool Acceptor::tick() {
  const auto now = Clock::now();
  for (const Id id : pending_.late(now, patience_))
    reject(id, "it did not say in time which rank it is");
  if (paused_ && now >= resume_at_) resume();
  return paused_ || !pending_.empty();
}

void Acceptor::reject(Id id, const std::string& reason) {
  rejected_connections_.note(log_, fmt::format("port {}", port_),
                             text(pending_connections_.at(id).from), reason);
  release(id);
}

/// With a reset, so that nothing of it stays in the kernel.
void Acceptor::crowd_out(Id id, bool is_scarce) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  const PendingConnection& pending = pending_connections_.at(id);
  ::setsockopt(pending.socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  if (!is_scarce)
    return reject(id, "it has not proved that it is a rank, and too many others called");
  rejected_connections_.note_closed(log_, fmt::format("port {}", port_), text(pending.from));
  release(id);
}

void Acceptor::release(Id id) {
  pending_.leave(id);
  pending_connections_.erase(id);
}

void Acceptor::pause() {
  resume_at_ = Clock::now() + kRecovery;
  paused_ = true;
  for (Watched& listener : listeners_) listener.change(0);
  events_.wants_ticks();
}

void Acceptor::resume() {
  paused_ = false;
  for (Watched& listener : listeners_) listener.change(EPOLLIN);
}

}  // namespace weft::p2p
