#include "p2p/transport/wireup/connect_attempt.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"

namespace weft::p2p {
namespace {

using namespace std::chrono_literals;

/// Until the next place is tried beside those that have not answered.
constexpr std::chrono::milliseconds kStagger = 250ms;
constexpr std::chrono::milliseconds kFirstPause = 100ms;  // between two rounds; doubles
constexpr std::chrono::milliseconds kLongestPause = 2s;
/// For the kernel to ask thrice (after 1 and 3 s), and a busy rank to answer.
constexpr std::chrono::seconds kConnectPatience{5};
constexpr std::chrono::seconds kAnswerPatience{10};

constexpr const char* kNoAnswer = "connected, but it does not answer";

int error_of(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace

ConnectAttempt::ConnectAttempt(ProgressThread& progress, const Identity& identity, Target target,
                               std::uint16_t port, const std::vector<IpAddress>& ips, Events events,
                               CongestionControl congestion, std::vector<IpAddress> from)
    : progress_(progress),
      identity_(identity),
      congestion_(std::move(congestion)),
      from_(std::move(from)),
      target_(target),
      port_(port),
      events_(std::move(events)),
      trials_(ips.size()),
      pause_(kFirstPause) {
  for (std::size_t i = 0; i < ips.size(); ++i) trials_[i].ip = ips[i];
}

std::optional<std::string> ConnectAttempt::tick() {
  const auto now = Clock::now();
  for (Trial& trial : trials_)
    if (trial.stage != Stage::idle && now >= trial.deadline)
      fail(trial, trial.stage == Stage::connecting ? os::words(ETIMEDOUT) : kNoAnswer);
  start_next(now);
  if (is_trying() || next_ < trials_.size()) return std::nullopt;
  // Every rank listens before any is called, so a host where none listens has lost its rank.
  if (!target_.keeps_trying &&
      std::all_of(trials_.begin(), trials_.end(), [](const Trial& t) { return t.refused; }))
    return "no process listens there: the peer's process ended";
  if (!target_.keeps_trying && !trials_.empty() &&
      std::ranges::all_of(trials_, [](const Trial& t) { return t.barred; }))
    return "no interface that WEFT_IFACE names leads there";
  next_ = 0;
  next_start_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  return std::nullopt;
}

void ConnectAttempt::start_next(Clock::time_point now) {
  if (next_ == 0 && now < next_start_) return;
  while (next_ < trials_.size() && (!is_trying() || now >= next_start_)) {
    next_start_ = now + kStagger;
    start(trials_[next_++], now);
  }
}

/// Routes may lead there by an interface that was not named.
bool ConnectAttempt::is_barred(Trial& trial) {
  trial.barred = false;
  if (from_.empty()) return false;
  const IpAddress own = source_towards(trial.ip);
  // Without a route the call itself fails; one's own host is reached by none.
  if (own == IpAddress{} || own == trial.ip || std::ranges::find(from_, own) != from_.end())
    return false;
  trial.barred = true;
  fail(trial, "the way there is from " + p2p::text(own) + ", which WEFT_IFACE does not name");
  return true;
}

void ConnectAttempt::start(Trial& trial, Clock::time_point now) {
  trial.refused = false;
  if (is_barred(trial)) return;
  const int family = is_ipv4(trial.ip) ? AF_INET : AF_INET6;
  os::Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    const int why = errno;
    fail(trial, os::words(why));
    if (why == EAFNOSUPPORT) return;
    return events_.short_of(Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "connect",
        .message = "a socket to call another rank: " + os::words(why),
        .hint = "raise the limit of open files (ulimit -n): a rank needs one for each rank of "
                "another host",
        .peer = target_.rank}));
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  congestion_.apply(socket.get());
  const SocketAddress address = socket_address(trial.ip, port_);
  if (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    trial.refused = errno == ECONNREFUSED;
    return fail(trial, os::words(errno));
  }
  try {
    trial.socket = Watched(progress_, std::move(socket), EPOLLOUT,
                           [this, &trial](std::uint32_t) { on_ready(trial); });
  } catch (const Error& error) {
    fail(trial, error.detail().message);
    return events_.short_of(error);
  }
  trial.stage = Stage::connecting;
  trial.deadline = now + kConnectPatience;
}

std::size_t ConnectAttempt::wanted_at(Stage stage) noexcept {
  switch (stage) {
    case Stage::awaits_protocol:
      return sizeof(Handshake::Protocol);
    case Stage::awaits_answer:
      return sizeof(Answer);
    case Stage::refused:
      return sizeof(Refusal);
    default:
      return sizeof(std::uint16_t);
  }
}

void ConnectAttempt::on_ready(Trial& trial) {
  if (trial.stage == Stage::connecting) return on_connected(trial);
  switch (trial.in.read(trial.socket.get(), wanted_at(trial.stage))) {
    case ExactRead::State::incomplete:
      return;
    case ExactRead::State::closed:
      return fail(trial, "connected, but it closed the connection");
    case ExactRead::State::failed:
      return fail(trial, os::words(errno));
    case ExactRead::State::complete:
      break;
  }
  switch (trial.stage) {
    case Stage::awaits_protocol:
      return on_protocol(trial);
    case Stage::awaits_answer:
      return on_answer(trial);
    case Stage::refused:
      return refuse(trial, trial.in.take<Refusal>().text());
    default:
      return on_verdict(trial);
  }
}

void ConnectAttempt::on_verdict(Trial& trial) {
  const auto verdict = trial.in.take<std::uint16_t>();
  if (verdict == Refusal::kMark) {
    trial.stage = Stage::refused;
    return on_ready(trial);
  }
  if (verdict != 0) return fail(trial, "connected, but its first frame is malformed");
  // The last thing: it may destroy this call, and its events with it.
  const auto answered = events_.answered;
  const Handshake own = trial.handshake;
  const Handshake server = trial.server;
  answered(trial.socket.release(), own, server);
}

void ConnectAttempt::on_connected(Trial& trial) {
  const int error = error_of(trial.socket.get());
  trial.refused = error == ECONNREFUSED;
  if (error != 0) return fail(trial, os::words(error));
  trial.handshake = identity_.handshake(target_.rank, target_.purpose, target_.rail);
  if (!send_record(trial.socket.get(), trial.handshake)) return fail(trial, os::words(errno));
  trial.stage = Stage::awaits_protocol;
  trial.deadline = Clock::now() + kAnswerPatience;
  trial.socket.change(EPOLLIN);
}

void ConnectAttempt::on_protocol(Trial& trial) {
  const auto protocol = trial.in.peek<Handshake::Protocol>();
  const std::string reason = Identity::validate(protocol);
  if (reason.empty()) {
    trial.stage = Stage::awaits_answer;
    return on_ready(trial);
  }
  if (protocol.magic == Handshake::kMagic) return refuse(trial, reason);
  fail(trial, "connected, but it is not the rank: " + reason);
}

void ConnectAttempt::on_answer(Trial& trial) {
  const auto answer = trial.in.take<Answer>();
  if (const std::string reason = identity_.validate(trial.handshake, answer); !reason.empty()) {
    // The other end is to have its line too; it gets no proof.
    (void)send_record(trial.socket.get(), Proof{});
    if (identity_.is_of_other_job(answer.handshake)) return refuse(trial, reason);
    return fail(trial, "connected, but it is not the rank: " + reason);
  }
  trial.server = answer.handshake;
  // Only one proof is given, so that the other end meets this rank once.
  for (Trial& other : trials_)
    if (&other != &trial && other.stage != Stage::idle) fail(other, "another place came first");
  next_ = trials_.size();
  if (!send_record(trial.socket.get(), identity_.prove(trial.handshake, answer)))
    return fail(trial, os::words(errno));
  trial.stage = Stage::proved;
  trial.deadline = Clock::now() + kAnswerPatience;
}

void ConnectAttempt::refuse(Trial& trial, const std::string& reason) {
  refusal_ = reason;
  fail(trial, "connected, but refused: " + reason);
}

void ConnectAttempt::fail(Trial& trial, const std::string& trouble) {
  trial.socket = Watched();
  trial.stage = Stage::idle;
  trial.in = ExactRead();
  trial.trouble = trouble;
}

bool ConnectAttempt::is_trying() const noexcept {
  return std::any_of(trials_.begin(), trials_.end(),
                     [](const Trial& t) { return t.stage != Stage::idle; });
}

std::string ConnectAttempt::text(const Trial& trial) {
  if (!trial.trouble.empty()) return trial.trouble;
  if (trial.stage == Stage::idle) return "not tried";
  return trial.stage == Stage::connecting ? "nothing comes back" : kNoAnswer;
}

std::string ConnectAttempt::text() const {
  std::string all;
  for (const Trial& trial : trials_)
    all += (all.empty() ? "" : "; ") + p2p::text(trial.ip, port_) + ": " + text(trial);
  return all;
}

}  // namespace weft::p2p
