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

void TcpFabric::on_rail(Partner& partner, const RailEvent& event) {
  switch (event.kind) {
    case RailEvent::Kind::none:
      return;
    case RailEvent::Kind::path_lost:
      return on_broke(partner, true, event.status);
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
