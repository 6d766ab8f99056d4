#include "p2p/transport/wireup/heartbeats.hpp"

#include <algorithm>
#include <utility>

#include "base/mix64.hpp"

namespace weft::p2p {
namespace {

/// Lifetime of an alarm: by then every rank has heard of it.
constexpr int kAlarmPeriods = 5;

/// Which ranks watch over which: for each another order, so that no rank is chosen by most.
std::uint64_t order_of(int self, int rank) noexcept {
  const auto both = static_cast<std::uint64_t>(self) << 32 | static_cast<std::uint32_t>(rank);
  return mix64(both + kGolden64);
}

}  // namespace

Heartbeats::Heartbeats(int self, int size, Send send)
    : self_(self), send_(std::move(send)), links_(static_cast<std::size_t>(size)) {}

void Heartbeats::met(int rank) {
  at(rank) = Link{.met = true, .chosen = true, .asked = true, .watched = true};
  changed_ = true;
}

void Heartbeats::gone(int rank) {
  if (!at(rank).met) return;
  at(rank) = Link{};
  changed_ = true;
}

void Heartbeats::received(int from, BeatCall call) {
  Link& link = at(from);
  if (!link.met) return;
  if (call == BeatCall::no_longer) {
    link.asked = false;
    link.watched = link.chosen;
    return;
  }
  if (call == BeatCall::watch) link.asked = true;
  watch(link);
  if (call == BeatCall::alarm) raise();
}

void Heartbeats::watch(Link& link) noexcept {
  if (!std::exchange(link.watched, true)) link.silent = 0;
}

void Heartbeats::pass() {
  if (std::exchange(changed_, false)) choose();
  if (alarm_left_ == 0 || --alarm_left_ > 0) return;
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank)
    if (at(rank).met && !at(rank).beats()) send_(rank, BeatCall::no_longer);
}

void Heartbeats::choose() {
  std::vector<std::pair<std::uint64_t, int>> candidates;
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank)
    if (at(rank).met) candidates.emplace_back(order_of(self_, rank), rank);
  const std::size_t wanted = std::min<std::size_t>(kWatchers, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(wanted),
                    candidates.end());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Link& link = at(candidates[i].second);
    const bool chosen = i < wanted;
    if (std::exchange(link.chosen, chosen) == chosen) continue;
    if (chosen) watch(link);
    if (!chosen && alarm_left_ == 0) link.watched = link.asked;
    send_(candidates[i].second, chosen ? BeatCall::watch : BeatCall::no_longer);
  }
}

int Heartbeats::silence(int rank, bool heard) {
  if (!judges(rank)) return 0;
  Link& link = at(rank);
  link.silent = heard ? 0 : link.silent + 1;
  if (link.silent == kAlarm) raise();
  return link.silent;
}

void Heartbeats::raise() {
  // The rank that this one is about was silent already when the last one began; or it is its echo.
  if (alarm_left_ > kAlarmPeriods - kAlarm) return;
  alarm_left_ = kAlarmPeriods;
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    if (!at(rank).met) continue;
    watch(at(rank));
    send_(rank, BeatCall::alarm);
  }
}

void Heartbeats::excuse() noexcept {
  for (Link& link : links_) link.silent = 0;
}

}  // namespace weft::p2p
