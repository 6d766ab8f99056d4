// The rails of a fabric's paths: their losses and returns are told, and silent ones given up.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/tcp/tcp_fabric.hpp"

namespace weft::p2p::tcp {
namespace {

/// A silence is borne for a part of WEFT_DEAD_AFTER, within limits, while another rail works.
constexpr int kRailPatience = 20;
constexpr std::chrono::milliseconds kLeastRailPatience{200};
constexpr std::chrono::milliseconds kMostRailPatience{2000};

}  // namespace

std::vector<std::vector<IpAddress>> TcpFabric::shared_with(int rank, const Terms& theirs) const {
  const HostAddresses own{listens_at_, terms_.networks};
  const HostAddresses peer{connector_.address(rank), theirs.networks};
  return local_.rank < rank ? shared_networks(own, peer) : shared_networks(peer, own);
}

void TcpFabric::tell_of_congestion(const Partner& partner) {
  const CongestionControl& congestion = connector_.congestion();
  if (partner.is_here && !congestion.is_refused()) return;
  if (std::exchange(tells_of_congestion_, false)) congestion.tell(*local_.log);
}

void TcpFabric::tell_of_addresses_of_both(const Partner& partner) {
  for (const IpAddress& ip : addresses_of_both(listens_at_, connector_.address(partner.rank))) {
    if (std::ranges::find(told_of_both_, ip) != told_of_both_.end()) continue;
    told_of_both_.push_back(ip);
    const std::size_t place = std::ranges::find(listens_at_.ips, ip) - listens_at_.ips.begin();
    const int bits = terms_.networks[place].prefix_bits - (is_ipv4(ip) ? 96 : 0);
    local_.log->info(Subsystem::path,
                     "network {}/{} leads back to this host, as rank {} has the same address: it "
                     "carries no rail",
                     text(ip), bits, partner.rank);
  }
}

void TcpFabric::agree(Partner& partner, const Terms& theirs) {
  tell_of_addresses_of_both(partner);
  auto shared = shared_with(partner.rank, theirs);
  partner.terms = terms_.agreed(theirs, shared.size());
  const Terms& terms = *partner.terms;
  // A peer that leaves it to the networks may be short of descriptors as well.
  const std::size_t wanted =
      theirs.by_networks != 0 ? shared.size() : std::min<std::size_t>(shared.size(), theirs.rails);
  if (terms_.by_networks != 0 && terms_.rails < wanted &&
      !std::exchange(has_told_of_descriptors_, true))
    local_.log->warn(Subsystem::path,
                     "{} networks are shared with rank {}, and {} of them used: there are no file "
                     "descriptors for more connections to all ranks; raise the limit of open files "
                     "(ulimit -n), or set WEFT_RAILS",
                     shared.size(), partner.rank, terms_.rails);
  if (terms.rails > 1) connector_.go_by_rails(partner.rank);
  if (local_.rank < partner.rank) return;
  if (terms.by_networks != 0 && !shared.empty()) {
    shared.resize(terms.rails);
    return connector_.call_for_data_by(partner.rank, shared);
  }
  for (int rail = 0; rail < terms.rails; ++rail) connector_.call_for_data(partner.rank, rail);
}

void TcpFabric::unanswered(int rank, int rail, const std::string& why) {
  local_.log->warn(Subsystem::path, "rail {} to rank {}: {}; this job leaves it out", rail, rank,
                   why);
}

void TcpFabric::on_rail(Partner& partner, const RailEvent& event) {
  switch (event.kind) {
    case RailEvent::Kind::none:
      return;
    case RailEvent::Kind::path_lost:
      return on_broke(partner, true, event.status);
    case RailEvent::Kind::joined:
      local_.log->info(Subsystem::path, "rail {} to rank {}: {} to {}", event.rail, partner.rank,
                       event.why, text(event.address));
      return;
    case RailEvent::Kind::up:
      partner.channel->counters().rails_back.add(1);
      local_.log->info(Subsystem::path, "rail {} to rank {} is back", event.rail, partner.rank);
      return;
    case RailEvent::Kind::replaced: {
      RailEvent part = event;
      part.kind = RailEvent::Kind::down;
      on_rail(partner, part);
      part.kind = RailEvent::Kind::up;
      return on_rail(partner, part);
    }
    case RailEvent::Kind::down:
      partner.channel->counters().rails_lost.add(1);
      local_.log->warn(Subsystem::path,
                       "rail {} to rank {} ({}) is lost, its share goes by the others: {}",
                       event.rail, partner.rank, text(event.address), event.why);
      if (local_.rank > partner.rank)
        connector_.call_again_for_data(partner.rank, static_cast<int>(event.rail), event.address);
  }
}

void TcpFabric::tell_rails(const Partner& partner) {
  const std::vector<RailReport> rails = partner.channel->rails();
  std::string list;
  for (const RailReport& rail : rails)
    list += fmt::format("{}{} to {}", list.empty() ? "" : ", ", rail.own, rail.peer);
  local_.log->info(Subsystem::path, "rails to rank {}: {}", partner.rank, list);
  // The one that calls knows where it called.
  for (std::size_t i = 0; i < rails.size() && local_.rank > partner.rank; ++i) {
    const std::string wanted = text(connector_.address_for_data(partner.rank, static_cast<int>(i)));
    if (rails[i].peer != wanted)
      local_.log->warn(
          Subsystem::path,
          "rail {} to rank {} goes by {}: {} did not answer, and this job leaves it out", i,
          partner.rank, rails[i].peer, wanted);
  }
}

void TcpFabric::check_rails() {
  using std::chrono::milliseconds;
  const auto now = Clock::now();
  const auto since_last = now - std::exchange(rails_checked_, now);
  // This process may have been stopped.
  if (since_last > 4 * kRailCheck) return;
  const auto patience = std::clamp<std::chrono::nanoseconds>(
      dead_after_.value_or(kRailPatience * kMostRailPatience) / kRailPatience, kLeastRailPatience,
      kMostRailPatience);
  for (Partner& partner : partners_)
    if (partner.channel != nullptr && partner.is_connected && !partner.has_ended)
      on_rail(partner, partner.channel->check_rails(since_last, patience));
}

}  // namespace weft::p2p::tcp
