#include "p2p/connector/door.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"

namespace weft::p2p {
namespace {

constexpr int kBacklog = 4096;  // a job's ranks may all call at once
constexpr int kPortTrials = 16;
/// While others wait outside.
constexpr std::chrono::seconds kShortPatience{1};
constexpr std::chrono::seconds kRecovery{1};  // until descriptors are asked for again

os::Fd make_listener(const Place& place) {
  const int family = is_ipv4(place) ? AF_INET : AF_INET6;
  os::Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) os::throw_system_error("join", "socket");
  const int on = 1;
  if (family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  return socket;
}

/// Before the connection is closed. What has come and was not read would take it back.
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

Door::Door(ProgressThread& progress, Log& log, TurnedAway& turned_away,
           std::chrono::nanoseconds patience, Events events)
    : progress_(progress),
      log_(log),
      turned_away_(turned_away),
      patience_(patience),
      events_(std::move(events)) {}

std::uint16_t Door::listen(const std::vector<Place>& places, std::uint16_t port) {
  // The kernel draws a port at the first place; somebody may have it at another.
  for (int i = 0; i < kPortTrials; ++i)
    if (try_listen(places, port)) return port_;
  os::throw_system_error("join", "a port that is free at every address of this host", EADDRINUSE);
}

bool Door::try_listen(const std::vector<Place>& places, std::uint16_t wanted) {
  unopened_.clear();
  port_ = wanted;
  for (const Place& place : places) {
    os::Fd socket = make_listener(place);
    // What an earlier job left of its connections at this port is no reason to wait.
    const int on = 1;
    if (wanted != 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const SocketAddress address = socket_address(place, port_);
    if (::bind(socket.get(), address.get(), address.size) != 0 ||
        ::listen(socket.get(), kBacklog) != 0) {
      if (errno == EADDRINUSE && port_ != wanted) return false;
      os::throw_system_error("join",
                             "listening at " + (port_ == 0 ? text(place) : text(place, port_)));
    }
    if (port_ == 0) port_ = port_of(socket.get());
    unopened_.push_back(std::move(socket));
  }
  return true;
}

void Door::open(const Identity& identity) {
  identity_ = identity;
  for (os::Fd& socket : unopened_) {
    const int fd = socket.get();
    listeners_.emplace_back(progress_, std::move(socket), EPOLLIN,
                            [this, fd](std::uint32_t) { admit(fd); });
  }
  unopened_.clear();
}

void Door::admit(int listener) {
  while (!paused_) {
    SocketAddress from;
    os::Fd socket(::accept4(listener, from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      take_in(std::move(socket), place_of(*from.get()));
      continue;
    }
    // A connection may have broken before it was accepted.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      const int why = errno;
      pause();  // or it would be asked for ever
      events_.short_of(Error(ErrorDetail{
          .code = Code::exhausted,
          .operation = "connect",
          .message = fmt::format("accepting a rank's connection: {}", os::words(why)),
          .hint = "raise the limit of open files (ulimit -n): a rank needs one for each rank of "
                  "another host"}));
    }
    return;
  }
}

void Door::take_in(os::Fd socket, const Place& from) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int fd = socket.get();
  try {
    strangers_[fd] = {.socket = Watched(progress_, std::move(socket), EPOLLIN,
                                        [this, fd](std::uint32_t) { on_bytes(fd); }),
                      .from = from,
                      .since = Clock::now(),
                      .hello = {},
                      .answer = {},
                      .in = {}};
  } catch (const Error& error) {
    pause();
    return events_.short_of(error);
  }
  if (strangers_.size() >= kMaxStrangers) pause();
  events_.wants_ticks();
}

void Door::on_bytes(int fd) {
  Stranger& stranger = strangers_.at(fd);
  const std::size_t wanted = stranger.answered  ? sizeof(Proof)
                             : stranger.greeted ? sizeof(Hello)
                                                : sizeof(Greeting);
  switch (stranger.in.read(fd, wanted)) {
    case ExactRead::State::incomplete:
      return;
    case ExactRead::State::failed:
    case ExactRead::State::closed:
      // A port scan; or a rank that met this one by another of its places.
      log_.debug(Subsystem::path, "a connection from {} ended before it said which rank it is",
                 text(stranger.from));
      return let_go(fd);
    case ExactRead::State::complete:
      break;
  }
  if (stranger.answered) return on_proof(fd, stranger);
  stranger.greeted ? on_hello(fd, stranger) : on_greeting(fd, stranger);
}

void Door::on_greeting(int fd, Stranger& stranger) {
  const auto greeting = stranger.in.peek<Greeting>();
  const std::string reason = Identity::distrust(greeting);
  if (reason.empty()) {
    stranger.greeted = true;
    return on_bytes(fd);
  }
  if (greeting.magic == Hello::kMagic) send_last(fd, Hello{}.greeting());
  turn_away(fd, reason);
}

void Door::on_hello(int fd, Stranger& stranger) {
  stranger.hello = stranger.in.take<Hello>();
  if (const std::string reason = identity_.distrust(stranger.hello); !reason.empty()) {
    if (identity_.is_of_other_job(stranger.hello)) send_last(fd, identity_.answer(stranger.hello));
    return turn_away(fd, reason);
  }
  stranger.answer = identity_.answer(stranger.hello);
  stranger.answered = true;
  if (!send_record(fd, stranger.answer)) let_go(fd);
}

void Door::on_proof(int fd, Stranger& stranger) {
  if (!identity_.believes(stranger.hello, stranger.answer, stranger.in.take<Proof>()))
    return turn_away(fd, "it does not know the job's secret");
  const Hello caller = stranger.hello;
  const Hello own = stranger.answer.hello;
  os::Fd socket = stranger.socket.release();
  const std::string from = text(stranger.from);
  let_go(fd);
  const std::string reason = events_.came(caller, own, socket);
  if (reason.empty()) return;
  if (socket && send_record(socket.get(), Refusal::kMark))
    send_last(socket.get(), Refusal::of(reason));
  log_.debug(Subsystem::path, "rank {} called from {} in vain: {}", caller.from, from, reason);
}

bool Door::tick() {
  const auto now = Clock::now();
  const auto patience =
      paused_ ? std::min<std::chrono::nanoseconds>(patience_, kShortPatience) : patience_;
  std::vector<int> late;
  for (const auto& [fd, stranger] : strangers_)
    if (now - stranger.since >= patience) late.push_back(fd);
  for (const int fd : late) turn_away(fd, "it did not say in time which rank it is");
  if (paused_ && strangers_.size() < kMaxStrangers && now >= resume_at_) resume();
  return paused_ || !strangers_.empty();
}

void Door::turn_away(int fd, const std::string& reason) {
  turned_away_.note(log_, fmt::format("port {}", port_), text(strangers_.at(fd).from), reason);
  let_go(fd);
}

void Door::let_go(int fd) {
  strangers_.erase(fd);
  if (paused_ && strangers_.size() + 1 == kMaxStrangers && Clock::now() >= resume_at_) resume();
}

void Door::pause() {
  if (strangers_.size() < kMaxStrangers) resume_at_ = Clock::now() + kRecovery;
  paused_ = true;
  for (Watched& listener : listeners_) listener.change(0);
  events_.wants_ticks();
}

void Door::resume() {
  paused_ = false;
  for (Watched& listener : listeners_) listener.change(EPOLLIN);
}

}  // namespace weft::p2p
