#include "p2p/transport/wireup/connector.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"
#include "p2p/transport/wireup/connector_implementation.hpp"

namespace weft::p2p {
namespace {

using std::chrono::nanoseconds;

/// For who is connecting, and for unauthenticated clients.
constexpr std::chrono::milliseconds kErrandPeriod{50};
constexpr std::chrono::seconds kPatience{10};
/// Heartbeat timing where no rank is ever declared dead.
constexpr std::chrono::seconds kUnlimited{10};
/// The kernel asks whether the other host still answers, wherever this rank does not listen for
/// signs of life: a pair may be cut off from each other alone.
void keep_asking(int socket, nanoseconds dead_after) {
  constexpr int kSpans = 3;
  const auto set = [socket](int level, int option, std::int64_t value) {
    const auto number = static_cast<int>(std::clamp<std::int64_t>(value, 1, 3600));
    ::setsockopt(socket, level, option, &number, sizeof number);
  };
  const std::int64_t span = std::chrono::duration_cast<std::chrono::seconds>(dead_after).count();
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, (kSpans - 1) * span);
  set(IPPROTO_TCP, TCP_KEEPINTVL, span / kSpans);
  set(IPPROTO_TCP, TCP_KEEPCNT, kSpans);
}

/// For a connection that need not work as long as one of several rails does: the kernel never ends
/// it for want of an answer.
void never_give_up(int socket) {
  constexpr unsigned kLongest = 0x7fffffff;  // milliseconds
  const int off = 0;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof off);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kLongest, sizeof kLongest);
}

}  // namespace

Connector::Implementation::Implementation(LocalRank& local_rank, ProgressThread& thread,
                                          ConnectorEvents& to, const Config& config)
    : local(local_rank),
      progress(thread),
      events(to),
      init_timeout(config.time(Setting::init_timeout).value()),
      dead_after(config.time(Setting::dead_after).value_or(kUnlimited)),
      judges_silence(config.time(Setting::dead_after).has_value()),
      encrypts(config.flag(Setting::encrypt)),
      interface(config.text(Setting::iface)),
      congestion(config.text(Setting::tcp_congestion)),
      why_silent("silent for " + seconds(dead_after)),
      acceptor(thread, *local_rank.log, local_rank.rejected_connections,
               std::min<nanoseconds>(kPatience, init_timeout),
               {.came = [this](const Handshake& client, const Handshake& server,
                               os::Fd& socket) { return on_client(client, server, socket); },
                .short_of = [this](const Error& error) { events.short_of(error); },
                .wants_ticks = [this] { errands.start(); }},
               congestion),
      errands(thread, kErrandPeriod, [this](std::uint64_t) { run_errands(); }),
      heartbeat(thread, dead_after / Heartbeats::kPeriods,
                [this](std::uint64_t expired) { beat(expired); }) {}

void Connector::Implementation::begin(int rank, State how) {
  assert(rank != local.rank);
  Peer& wanted = peer(rank);
  if (wanted.state >= how) return;  // it was quicker
  wanted.state = how;
  wanted.give_up = Clock::now() + init_timeout;
  errands.start();
  if (how == State::calling) call(rank);
}

std::vector<IpAddress> Connector::Implementation::addresses_of(const Peer& server) const {
  return sort_by_reachability(server.address, own_addresses, interface != "auto");
}

void Connector::Implementation::call(int rank) {
  Peer& server = peer(rank);
  server.attempt = std::make_unique<ConnectAttempt>(
      progress, identity, ConnectAttempt::Target{.rank = rank}, server.address.port,
      addresses_of(server),
      ConnectAttempt::Events{
          .answered =
              [this, rank](os::Fd socket, const Handshake& own_end, const Handshake& theirs) {
                std::optional<RecordCipher> cipher;
                if (const ConnectionKeys keys = identity.keys(own_end, theirs);
                    own_end.seals != 0 || theirs.seals != 0)
                  cipher.emplace(keys.to_server, keys.to_client);
                meet(rank, std::move(socket), std::move(cipher));
              },
          .short_of = say_short_of()},
      congestion, may_call_from);
  server.attempt->begin();
}

std::function<void(const Error&)> Connector::Implementation::say_short_of() {
  // Not from within a call to the connector.
  return [this](const Error& error) { progress.post([this, error] { events.short_of(error); }); };
}

std::string Connector::Implementation::on_client(const Handshake& client, const Handshake& own_end,
                                                 os::Fd& socket) {
  if (client.purpose == Purpose::oob_allgather) return "the ranks have been introduced already";
  if (client.purpose == Purpose::subscriber) return "subscribers have an acceptor of their own";
  if (client.purpose == Purpose::memory) return "memory is shared by a Unix socket";
  if (client.purpose == Purpose::data) return on_called_for_data(client, own_end, socket);
  const int rank = client.from;
  const State state = peer(rank).state;
  if (state == State::met) return "it is connected already";
  if (state == State::ended) return "its connection has ended";
  // If two ranks call each other, the higher rank's call counts, at both ends.
  if (state == State::calling && local.rank > rank) return "this rank is calling it";
  // The caller waits for it: until then it might still be rejected.
  if (!send_record(socket.get(), std::uint16_t{0})) return os::words(errno);
  std::optional<RecordCipher> cipher;
  if (const ConnectionKeys keys = identity.keys(client, own_end);
      client.seals != 0 || own_end.seals != 0)
    cipher.emplace(keys.to_client, keys.to_server);
  meet(rank, std::move(socket), std::move(cipher));
  return {};
}

void Connector::Implementation::meet(int rank, os::Fd socket, std::optional<RecordCipher> cipher) {
  Peer& met = peer(rank);
  met.attempt.reset();
  if (judges_silence) keep_asking(socket.get(), dead_after);
  try {
    met.stream = std::make_unique<Stream>(
        progress, std::move(socket),
        Stream::Events{
            .said = [this,
                     rank](std::span<const std::byte> message) { events.said(rank, message); },
            .beat_called = [this, rank](BeatCall call) { beats->received(rank, call); },
            .ended =
                [this, rank](Stream::How how, const std::string& why) {
                  stream_closed();
                  on_stream_end(rank, how, why);
                }},
        std::move(cipher));
  } catch (const Error& error) {
    met.state = State::ended;
    events.short_of(error);
    return events.ended(rank, false, error.detail().message);
  }
  met.state = State::met;
  beats->met(rank);
  ++streams;
  heartbeat.start();
  events.met(rank);
}

void Connector::Implementation::on_stream_end(int rank, Stream::How how, const std::string& why) {
  peer(rank).state = State::ended;
  peer(rank).lost_rails.clear();
  beats->gone(rank);
  if (local.liveness != nullptr) {
    if (how == Stream::How::process_ended) local.liveness->saw_end(rank);
    if (how == Stream::How::given_up) local.liveness->given_up_by(rank, why);
  }
  events.ended(rank, how == Stream::How::orderly,
               how == Stream::How::given_up ? "it has given this rank up: " + why : why);
}

void Connector::Implementation::stream_closed() noexcept {
  if (--streams == 0) heartbeat.stop();
}

void Connector::Implementation::close(int rank, const std::string& why) {
  Peer& closed = peer(rank);
  // It closes when the other end does, or after some beats.
  if (closed.state == State::met) {
    beats->gone(rank);
    closed.stream->give_up(why);
    closed.beats_given_up = kBeatsOfAGivenUp;
  }
  closed.attempt.reset();
  closed.data_attempts.clear();
  closed.lost_rails.clear();
  closed.state = State::ended;
}

void Connector::Implementation::run_errands() {
  bool more = acceptor.tick();
  for (int rank = 0; rank < static_cast<int>(peers.size()); ++rank) more = run_errand(rank) || more;
  // The events may have changed the state that was read above.
  if (!more && !is_connecting()) errands.stop();
}

bool Connector::Implementation::is_connecting() const {
  return std::any_of(peers.begin(), peers.end(), [](const Peer& p) {
    return p.state == State::calling || p.state == State::expecting || !p.data_attempts.empty() ||
           !p.lost_rails.empty();
  });
}

bool Connector::Implementation::run_errand(int rank) {
  Peer& late = peer(rank);
  // No process may listen there for now, as the cable may lead to another host.
  for (const auto& [rail, attempt] : late.lost_rails) (void)attempt->tick();
  if (!late.data_attempts.empty()) return run_data_errand(rank);
  if (late.state != State::calling && late.state != State::expecting)
    return !late.lost_rails.empty();
  const bool is_late = Clock::now() >= late.give_up;
  std::optional<std::string> reason = late.attempt ? late.attempt->tick() : std::nullopt;
  if (!reason && is_late) reason = fmt::format("no connection within {}", seconds(init_timeout));
  if (!reason) return true;
  const std::string ips = late.attempt ? late.attempt->text()
                                       : fmt::format("it was to call, from {}", text(late.address));
  const std::string why =
      fmt::format("{} ({}); this rank is at {}; {}", *reason, ips, text(own), kReachHint);
  late.attempt.reset();
  late.state = State::ended;
  events.ended(rank, false, why);
  return false;
}

Connector::Connector(LocalRank& local, ProgressThread& progress, ConnectorEvents& events,
                     const Config& config)
    : implementation_(std::make_unique<Implementation>(local, progress, events, config)) {
  if (sodium_init() < 0)
    throw Error(ErrorDetail{
        .code = Code::system, .operation = "join", .message = "libsodium found no randomness"});
}

Connector::~Connector() = default;

ConnectorAddress Connector::listen() {
  Implementation& self = *implementation_;
  Interfaces host = interfaces();
  const auto [ips, left_out] = choose_ip_addresses(host, self.interface);
  for (const std::string& name : left_out)
    self.local.log->warn(Subsystem::path,
                         "WEFT_IFACE={}: {} is left out: it is down, or has no address",
                         self.interface, name);
  self.own_addresses = std::move(host.addresses);
  if (self.interface != "auto") {
    self.may_call_from = addresses_beside(self.own_addresses, ips);
    std::erase_if(self.own_addresses, [&ips = ips](const InterfaceAddress& own) {
      return std::find(ips.begin(), ips.end(), own.ip) == ips.end();
    });
  }
  if (ips.empty())
    throw Error(ErrorDetail{.code = Code::system,
                            .operation = "join",
                            .message = "this host has no address, not even a loopback one",
                            .hint = "set an interface up, if only lo"});
  self.own.port = self.acceptor.listen(ips);
  self.own.count = static_cast<std::uint16_t>(ips.size());
  std::copy(ips.begin(), ips.end(), self.own.ips.begin());
  // Networks that were named are wanted, however slow.
  self.networks = describe(ips, self.own_addresses, self.interface == "auto");
  self.local.log->info(Subsystem::path, "ranks of other hosts reach this one at {}",
                       text(self.own));
  return self.own;
}

void Connector::open(std::span<const ConnectorAddress> job, const JobSecret& secret) {
  Implementation& self = *implementation_;
  self.peers = std::vector<Implementation::Peer>(job.size());
  for (std::size_t i = 0; i < job.size(); ++i) self.peers[i].address = job[i];
  self.beats.emplace(self.local.rank, static_cast<int>(job.size()), [&self](int to, BeatCall call) {
    if (self.peer(to).state == Implementation::State::met) self.peer(to).stream->send(call);
  });
  self.identity = Identity(self.local.rank, static_cast<int>(job.size()), secret, self.encrypts);
  self.acceptor.open(self.identity);
}

const CongestionControl& Connector::congestion() const noexcept {
  return implementation_->congestion;
}

void Connector::connect(int rank) {
  if (implementation_->local.rank > rank) return call(rank);
  implementation_->begin(rank, Implementation::State::expecting);
}

void Connector::call(int rank) { implementation_->begin(rank, Implementation::State::calling); }

void Connector::go_by_rails(int rank) {
  if (is_met(rank)) never_give_up(implementation_->peer(rank).stream->socket());
}

void Connector::send(int rank, std::span<const std::byte> message) {
  if (is_met(rank)) implementation_->peer(rank).stream->send(message);
}

void Connector::close(int rank) {
  Implementation& self = *implementation_;
  auto& peer = self.peer(rank);
  if (peer.state == Implementation::State::met) return peer.stream->send_end();
  if (peer.state == Implementation::State::ended) return;
  self.close(rank, "it leaves");
  self.progress.post([&self, rank] {
    if (!self.peer(rank).dropped) self.events.ended(rank, true, "this rank left");
  });
}

void Connector::drop(int rank, const std::string& why) {
  implementation_->peer(rank).dropped = true;
  implementation_->close(rank, why);
}

bool Connector::is_met(int rank) const noexcept {
  return implementation_->peer(rank).state == Implementation::State::met;
}

}  // namespace weft::p2p
