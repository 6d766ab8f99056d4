#include "p2p/transport/tcp/tcp_fabric.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/os/system_error.hpp"
#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/ending.hpp"
#include "p2p/transport/tcp/tcp_address.hpp"

namespace weft::p2p::tcp {
namespace {

/// How long a rank that goes waits for what it said last to arrive.
constexpr std::chrono::milliseconds kDrainTimeout{1000};
/// Between the end of the data and the connector's word of why, and the other way round.
constexpr std::chrono::milliseconds kUntilWhy{1000};
constexpr std::chrono::milliseconds kUntilLast{100};
constexpr std::chrono::milliseconds kEndings{10};
constexpr const char* kLinkHint =
    "is its host up, and the network between the hosts? WEFT_DEAD_AFTER sets how long a silence is "
    "borne";

/// The kernel notices that a connection without traffic is cut: the network of the wireup
/// connection may be another one.
void keep_alive(int socket, std::chrono::nanoseconds dead_after) {
  const auto set = [socket](int level, int option, std::int64_t value) {
    const auto number = static_cast<int>(std::clamp<std::int64_t>(value, 1, 3600));
    ::setsockopt(socket, level, option, &number, sizeof number);
  };
  constexpr int kProbes = 3;
  const std::int64_t span = std::chrono::ceil<std::chrono::seconds>(dead_after).count();
  // Rounded up: the kernel counts in seconds, and a shorter silence is borne.
  const std::int64_t first = (span + 1) / 2;
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, first);
  set(IPPROTO_TCP, TCP_KEEPINTVL, (first + kProbes - 1) / kProbes);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

Status taken_for_dead(int rank, std::string why, const char* hint = "") {
  return Status(ErrorDetail{.code = Code::peer_failed,
                            .operation = "path",
                            .message = std::move(why),
                            .hint = hint,
                            .peer = rank});
}

}  // namespace

TcpFabric::TcpFabric(LocalRank& local, ProgressThread& progress, FabricEvents& events,
                     const Config& config, int most_rails)
    : local_(local),
      progress_(progress),
      events_(events),
      terms_(
          {.rails = static_cast<std::uint16_t>(config.integer(Setting::rails).value_or(most_rails)),
           .checksums = static_cast<std::uint8_t>(config.flag(Setting::checksum)),
           .encrypts = static_cast<std::uint8_t>(config.flag(Setting::encrypt)),
           .by_networks = static_cast<std::uint8_t>(!config.integer(Setting::rails))}),
      dead_after_(config.time(Setting::dead_after)),
      connector_(local, progress, *this, config),
      first_use_(local, events, connector_,
                 static_cast<int>(config.integer(Setting::mesh_eager).value())),
      endings_(progress, kEndings, [this](std::uint64_t) { end_those_that_are_due(); }) {}

Reach TcpFabric::reaches(const RankAddress& own, const RankAddress& peer) const {
  const auto from = own.fabrics.find<TcpAddress>(kind());
  if (!from) return {false, why_not_};
  const auto to = peer.fabrics.find<TcpAddress>(kind());
  if (!to)
    return {false, fmt::format("host {} listens nowhere, its log says why", peer.host.data())};
  return {true, fmt::format("over TCP to {} from {}", text(to->connector), text(from->connector))};
}

void TcpFabric::listen(RankAddress& own) {
  if (!local_.allows(kind())) {
    why_not_ = local_.only_fabric_text();
    return;
  }
  try {
    listens_at_ = connector_.listen();
    terms_.networks = connector_.networks();
    (void)own.fabrics.add(kind(), TcpAddress{listens_at_});
  } catch (const Error& error) {
    if (local_.only_fabric == kind() || error.code() == Code::bad_config) throw;
    why_not_ = error.detail().message;
    local_.log->warn(Subsystem::path, "ranks of other hosts can't reach this one over TCP: {}",
                     why_not_);
  }
}

void TcpFabric::open(const std::vector<RankAddress>& job) {
  partners_ = std::vector<Partner>(job.size());
  first_use_.open(job.size());
  const auto& here = job[static_cast<std::size_t>(local_.rank)].host_id;
  for (std::size_t i = 0; i < job.size(); ++i) {
    partners_[i].rank = static_cast<int>(i);
    partners_[i].is_here = job[i].host_id == here;
  }
  tells_of_congestion_ = std::ranges::find(partners_, true, &Partner::is_here)->rank == local_.rank;
  if (!why_not_.empty()) return;
  std::vector<ConnectorAddress> addresses;
  for (const RankAddress& address : job)
    addresses.push_back(address.fabrics.find<TcpAddress>(kind()).value_or(TcpAddress{}).connector);
  connector_.open(addresses, job[0].job_secret);
}

void TcpFabric::start() {
  if (sockets_) return;
  sockets_.emplace(progress_);
  local_.waiter.add_poller(*sockets_, true);
  shared_.emplace(TcpRank{
      .local = local_,
      .sockets = *sockets_,
      .broke =
          [this](int peer, bool ended, const Status& why) {
            progress_.post([this, peer, ended, why] { on_broke(partner(peer), ended, why); });
          },
      .has_message =
          [this](int peer) { progress_.post([this, peer] { take_messages(partner(peer)); }); },
      .rail_broke =
          [this](int peer, std::size_t rail, std::uint32_t connection, const Status& why) {
            progress_.post([this, peer, rail, connection, why] {
              Partner& partner = this->partner(peer);
              if (partner.has_ended || partner.channel == nullptr) return;
              on_rail(partner, partner.channel->lose_rail(rail, connection, why.detail().message));
            });
          },
      .rail_said =
          [this](int peer, const Head& head) {
            progress_.post([this, peer, head] {
              Partner& partner = this->partner(peer);
              if (partner.has_ended || partner.channel == nullptr) return;
              on_rail(partner, partner.channel->on_rail_said(head));
            });
          },
      .first_use = first_use_});
  given_back_ = local_.adopted->on_release([this](std::uint32_t chunk) {
    {
      const std::lock_guard lock(channels_mutex_);
      for (const Partner& partner : partners_)
        if (partner.channel != nullptr) partner.channel->retract(chunk);
    }
    progress_.post([this, chunk] {
      for (const Partner& partner : partners_)
        if (partner.channel != nullptr) partner.channel->unshare(chunk);
    });
  });
}

void TcpFabric::connect(int rank) {
  Partner& partner = this->partner(rank);
  try {
    start();
    {
      const std::lock_guard lock(channels_mutex_);
      partner.made = std::make_unique<TcpChannel>(*shared_, rank);
      partner.channel = partner.made.get();
    }
    if (rank == local_.rank) return connect_to_itself(partner);
    tell_of_congestion(partner);
    if (first_use_.deferred()) return events_.reachable(rank, std::move(partner.made));
    first_use_.connect_eagerly(rank);
    connector_.connect(rank);
  } catch (const Error& error) {
    events_.short_of(error);
  }
}

void TcpFabric::connect_to_itself(Partner& partner) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    os::throw_system_error("join", "socketpair");
  std::vector<Pipe> rails;
  rails.emplace_back(os::Fd(ends[0]), os::Fd(ends[1]));
  first_use_.connect_eagerly(partner.rank);
  up(partner, std::move(rails));
}

void TcpFabric::met(int rank) {
  first_use_.begin(rank);
  connector_.send(rank, std::as_bytes(std::span(&terms_, 1)));
}

void TcpFabric::said(int rank, std::span<const std::byte> message) {
  Partner& partner = this->partner(rank);
  if (is_close(message)) return events_.message(rank, message);
  const auto theirs = Terms::parse(message);
  if (!theirs || partner.terms) return;
  agree(partner, *theirs);
  if_complete(partner);
}

void TcpFabric::brought(int rank, DataConnection connection) {
  Partner& partner = this->partner(rank);
  if (partner.has_ended) return;
  if (partner.is_connected) return renew(partner, std::move(connection));
  partner.rails.try_emplace(connection.rail, std::move(connection));
  if_complete(partner);
}

void TcpFabric::renew(Partner& partner, DataConnection connection) {
  if (partner.channel == nullptr || !partner.channel->has_several_rails()) return;
  const auto rail = static_cast<std::size_t>(connection.rail);
  const bool was_called = connection.was_called;
  try {
    on_rail(partner, partner.channel->renew_rail(rail, pipe_of(partner, std::move(connection)),
                                                 !was_called));
  } catch (const Error& error) {
    events_.short_of(error);
  }
}

void TcpFabric::if_complete(Partner& partner) {
  if (!partner.terms || partner.is_connected) return;
  if (partner.rails.size() < (partner.has_rails_by_network() ? 1 : partner.terms->rails)) return;
  if (partner.channel == nullptr) return;  // there was no memory for it, or this rank leaves
  auto connections = std::exchange(partner.rails, {});
  std::vector<Pipe> rails;
  if (!partner.has_rails_by_network())
    for (auto& [rail, connection] : connections)
      rails.push_back(pipe_of(partner, std::move(connection)));
  up(partner, std::move(rails));
  if (partner.is_connected && partner.has_rails_by_network())
    for (auto& [rail, connection] : connections) renew(partner, std::move(connection));
}

Pipe TcpFabric::pipe_of(const Partner& partner, DataConnection connection) const {
  if (partner.terms->rails > 1 && dead_after_) keep_alive(connection.socket.get(), *dead_after_);
  const ConnectionKeys& keys = connection.keys;
  if (partner.terms->encrypts == 0) return Pipe(std::move(connection.socket));
  if (connection.was_called)
    return {std::move(connection.socket), RecordCipher(keys.to_client, keys.to_server)};
  return {std::move(connection.socket), RecordCipher(keys.to_server, keys.to_client)};
}

void TcpFabric::up(Partner& partner, std::vector<Pipe> rails) {
  try {
    const bool checksums = partner.terms ? partner.terms->checksums != 0 : terms_.checksums != 0;
    if (partner.has_rails_by_network())
      partner.channel->open(partner.terms->rails, checksums);
    else
      partner.channel->open(std::move(rails), checksums);
    if (partner.channel->has_several_rails() && !rails_)
      rails_.emplace(progress_, kRailCheck, [this](std::uint64_t) { check_rails(); });
  } catch (const Error& error) {
    if (partner.made) return events_.short_of(error);
    return lose(partner, error.status());
  }
  partner.is_connected = true;
  if (partner.channel->has_several_rails()) {
    rails_->start();
    if (!partner.has_rails_by_network()) tell_rails(partner);
  }
  if (partner.made) events_.connected(partner.rank, std::move(partner.made));
  take_messages(partner);
}

bool TcpFabric::heard_otherwise(int rank) {
  Partner& partner = this->partner(rank);
  return partner.channel != nullptr && partner.channel->take_heard();
}

void TcpFabric::take_messages(Partner& partner) {
  if (!partner.is_connected || partner.has_ended || partner.channel == nullptr) return;
  partner.channel->take_messages(
      [&](std::span<const std::byte> bytes) { events_.message(partner.rank, bytes); });
}

void TcpFabric::ended(int rank, bool orderly, const std::string& why) {
  Partner& partner = this->partner(rank);
  const Status reason = orderly ? Status{} : taken_for_dead(rank, why);
  // Earlier messages of the rank may still be on their way, by the other connection.
  if (partner.is_connected && partner.channel != nullptr && !partner.channel->drain() &&
      !partner.ending)
    return end_soon(partner, reason, Partner::Awaited::data);
  lose(partner, reason);
}

void TcpFabric::silent(int rank, const std::string& why) {
  // One that goes on meanwhile leaves because it was told, and must not count as one that left.
  lose(partner(rank), taken_for_dead(rank, why, kLinkHint));
}

void TcpFabric::on_broke(Partner& partner, bool ended, const Status& why) {
  if (partner.has_ended || partner.channel == nullptr) return;
  if (partner.ending && partner.awaited == Partner::Awaited::data)
    return lose(partner, *partner.ending);
  if (!ended) return lose(partner, why);
  // Several rails tell of one end more than once.
  if (partner.ending) return;
  partner.channel->unwatch();
  end_soon(partner, why, Partner::Awaited::word);
}

void TcpFabric::end_soon(Partner& partner, const Status& why, Partner::Awaited awaited) {
  partner.ending = why;
  partner.awaited = awaited;
  partner.ending_until =
      Clock::now() + (awaited == Partner::Awaited::word ? kUntilWhy : kUntilLast);
  endings_.start();
}

void TcpFabric::end_those_that_are_due() {
  bool more = false;
  for (Partner& partner : partners_) {
    if (!partner.ending || partner.has_ended) continue;
    if (Clock::now() >= partner.ending_until)
      lose(partner, *partner.ending);
    else
      more = true;
  }
  if (!more) endings_.stop();
}

void TcpFabric::lose(Partner& partner, const Status& why) {
  if (partner.has_ended) return;
  // Earlier messages of the rank come first: perhaps that it leaves.
  if (partner.channel != nullptr && partner.is_connected) (void)partner.channel->drain();
  take_messages(partner);
  if (std::exchange(partner.has_ended, true)) return;
  if (partner.channel != nullptr) {
    partner.channel->unwatch();
    partner.channel->fail(why);
  }
  connector_.drop(partner.rank, why.ok() ? "" : why.detail().message);
  events_.lost(partner.rank, why);
}

bool TcpFabric::fence(int rank) {
  lose(partner(rank), taken_for_dead(rank, "it was declared dead"));
  return true;
}

void TcpFabric::short_of(const Error& error) { events_.short_of(error); }

void TcpFabric::drain() noexcept {
  if (!sockets_) return;
  const auto until = Clock::now() + kDrainTimeout;
  const auto idle = [&] {
    return std::all_of(partners_.begin(), partners_.end(), [](const Partner& p) {
      return p.channel == nullptr || p.has_ended || p.channel->is_idle();
    });
  };
  while (!idle() && Clock::now() < until) {
    sockets_->drain();
    sched_yield();
  }
  first_use_.close_all([this](int rank) { return partner(rank).has_ended; });
  const std::lock_guard lock(channels_mutex_);
  for (Partner& partner : partners_) partner.channel = nullptr;
}

}  // namespace weft::p2p::tcp
