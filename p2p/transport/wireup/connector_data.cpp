// Connections for data: calls for them, until they are there or are given up.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"
#include "p2p/transport/wireup/connector_implementation.hpp"

namespace weft::p2p {

void Connector::Implementation::call_for_data(int rank, int rail) {
  Peer& server = peer(rank);
  if (server.state != State::met || server.data_attempts.contains(rail)) return;
  // Each by a network of its own, where there are enough networks.
  std::vector<IpAddress> ips = addresses_of(server);
  if (!ips.empty())
    std::rotate(ips.begin(), ips.begin() + rail % static_cast<int>(ips.size()), ips.end());
  server.data_give_up = Clock::now() + init_timeout;
  errands.start();
  server.data_attempts.emplace(rail, data_attempt(rank, rail, ips, false)).first->second->begin();
}

void Connector::Implementation::call_for_data_by(
    int rank, const std::vector<std::vector<IpAddress>>& shared) {
  Peer& server = peer(rank);
  if (server.state != State::met || !server.data_attempts.empty()) return;
  server.any_rail_will_do = shared.size() > 1;
  server.data_give_up = Clock::now() + init_timeout;
  errands.start();
  for (int rail = 0; rail < static_cast<int>(shared.size()); ++rail) {
    std::vector<IpAddress> ips = shared[static_cast<std::size_t>(rail)];
    // The networks that both are on may not be connected, and others lead there.
    if (rail == 0)
      for (const IpAddress& other : addresses_of(server))
        if (std::ranges::none_of(shared, [&](const std::vector<IpAddress>& network) {
              return std::ranges::find(network, other) != network.end();
            }))
          ips.push_back(other);
    server.data_attempts.emplace(rail, data_attempt(rank, rail, ips, server.any_rail_will_do))
        .first->second->begin();
  }
}

void Connector::Implementation::call_again_for_data(int rank, int rail, const IpAddress& ip) {
  Peer& server = peer(rank);
  if (server.state != State::met || server.lost_rails.contains(rail)) return;
  errands.start();
  server.lost_rails.emplace(rail, data_attempt(rank, rail, {ip}, true)).first->second->begin();
}

std::unique_ptr<ConnectAttempt> Connector::Implementation::data_attempt(
    int rank, int rail, const std::vector<IpAddress>& ips, bool keeps_trying) {
  return std::make_unique<ConnectAttempt>(
      progress, identity,
      ConnectAttempt::Target{rank, Purpose::data, static_cast<std::uint16_t>(rail), keeps_trying},
      peer(rank).address.port, ips,
      ConnectAttempt::Events{
          .answered =
              [this, rank, rail](os::Fd socket, const Handshake& own, const Handshake& theirs) {
                peer(rank).data_came = true;
                peer(rank).data_attempts.erase(rail);
                peer(rank).lost_rails.erase(rail);
                events.brought(rank, {.socket = std::move(socket),
                                      .rail = rail,
                                      .was_called = false,
                                      .keys = identity.keys(own, theirs)});
              },
          .short_of = say_short_of()},
      congestion, may_call_from);
}

std::string Connector::Implementation::on_called_for_data(const Handshake& client,
                                                          const Handshake& own_end,
                                                          os::Fd& socket) {
  if (peer(client.from).state != State::met) return "it is not connected";
  // The caller waits for it before it takes the connection for its own.
  if (!send_record(socket.get(), std::uint16_t{0})) return os::words(errno);
  events.brought(client.from, {.socket = std::move(socket),
                               .rail = client.rail,
                               .was_called = true,
                               .keys = identity.keys(client, own_end)});
  return {};
}

bool Connector::Implementation::run_data_errand(int rank) {
  Peer& late = peer(rank);
  std::optional<std::string> reason;
  std::string ips;
  for (const auto& [rail, attempt] : late.data_attempts) {
    const auto failed = attempt->tick();
    if (!reason && failed) reason = failed;
    if (ips.empty()) ips = attempt->text();
  }
  if (!reason && Clock::now() >= late.data_give_up)
    reason = fmt::format("no connection for data within {}", seconds(init_timeout));
  if (!reason) return true;
  if (late.any_rail_will_do && late.data_came) {
    leave_out_late_rails(rank);
    return !late.lost_rails.empty();
  }
  const std::string why =
      fmt::format("{} ({}); this rank is at {}; {}", *reason, ips, text(own), kReachHint);
  close(rank, why);
  events.ended(rank, false, why);
  return false;
}

void Connector::Implementation::leave_out_late_rails(int rank) {
  const auto late = std::exchange(peer(rank).data_attempts, {});
  for (const auto& [rail, attempt] : late)
    events.unanswered(
        rank, rail,
        fmt::format("no connection within {} ({})", seconds(init_timeout), attempt->text()));
}

void Connector::call_for_data_by(int rank, const std::vector<std::vector<IpAddress>>& shared) {
  implementation_->call_for_data_by(rank, shared);
}

const NetworkAddresses& Connector::networks() const noexcept { return implementation_->networks; }

const ConnectorAddress& Connector::address(int rank) const noexcept {
  return implementation_->peer(rank).address;
}

void Connector::call_for_data(int rank, int rail) { implementation_->call_for_data(rank, rail); }

void Connector::call_again_for_data(int rank, int rail, const IpAddress& ip) {
  implementation_->call_again_for_data(rank, rail, ip);
}

IpAddress Connector::address_for_data(int rank, int rail) const {
  const auto ips = implementation_->addresses_of(implementation_->peer(rank));
  return ips.empty() ? IpAddress{} : ips[static_cast<std::size_t>(rail) % ips.size()];
}

}  // namespace weft::p2p
