// A lost link comes back: both ends take its queue pairs through RESET, and a request of each
// passes before puts use it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/verbs/revival.hpp"
#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {
namespace {

/// A NIC that works flushes at once.
constexpr std::chrono::seconds kDrainPatience{5};

}  // namespace

/// With the outbox's lock held, as the next.
bool VerbsChannel::prove(std::size_t link) noexcept {
  LinkRecord& record = failover_.links[link];
  bool have_passed = true;
  for (std::size_t k = 0; k < per_link_; ++k) {
    QueuePair& pair = *pairs_[link * per_link_ + k];
    std::uint64_t& probe = record.probes[k];
    if (probe == 0 && (probe = Revival(pair).probe()) == 0) rank_.rails.schedule_poll();
    have_passed = have_passed && probe != 0 && pair.has_succeeded(probe);
  }
  if (!have_passed) return false;
  if (post_link(record.message(LinkMessage::Type::ready, link))) return true;
  rank_.rails.schedule_poll();
  return false;
}

bool VerbsChannel::resume(std::size_t link) noexcept {
  LinkRecord& record = failover_.links[link];
  if (!record.state.peer_is_ready()) return false;
  // Another link speaks for this one in puts that began without it.
  failover_.unsettled.fetch_or(1U << link);
  if (long_puts_.count.load() != 0 ||
      !post_link(record.message(LinkMessage::Type::resumed, link))) {
    rank_.rails.schedule_poll();
    return false;
  }
  record.was_up = true;
  record.is_return_untold = true;
  record.pause = LinkRecord::kFirstPause;
  failover_.silent.fetch_and(~(1U << link));
  failover_.unsettled.fetch_and(~(1U << link));
  rank_.local.ring();
  rank_.tend(peer_);
  return true;
}

void VerbsChannel::tend_links() noexcept {
  if (!several_ || !is_open()) return;
  for (std::size_t link = 0; link < links_.size() && !has_failed(); ++link) {
    follow_port(link);
    follow_peer(link);
    tell(link);
    if (begin_anew(link)) restart(link);
    meet_again(link);
    check_patience(link);
  }
  flush();
  // Nothing else may be under way whose end would have a put tried again that was put off.
  if (failover_.unsettled.load() != 0) return;
  if (const int rings = failover_.rings_owed.load(); rings > 0) {
    failover_.rings_owed.store(rings - 1);
    rank_.local.ring();
  }
}

void VerbsChannel::follow_port(std::size_t link) noexcept {
  const Rail& rail = *links_[link].rail;
  {
    const std::lock_guard lock(outbox_.mutex);
    LinkRecord& record = failover_.links[link];
    if (std::exchange(record.port_is_up, rail.is_up) == rail.is_up) return;
    if (rail.is_up) record.next_try = Clock::now();
  }
  // The last one left may be back before its requests have used up their retries.
  if (!rail.is_up)
    (void)lose(link, refuse(Code::path_failed, [&] {
                 return ErrorDetail{.message = "its port is down", .peer = peer_};
               }));
}

/// The peer has lost it.
void VerbsChannel::follow_peer(std::size_t link) noexcept {
  {
    const std::lock_guard lock(outbox_.mutex);
    const LinkState& state = failover_.links[link].state;
    if (!state.peer_is_down() || !state.may_be_lost()) return;
  }
  lose_or_end(link, refuse(Code::path_failed, [&] {
                return ErrorDetail{.message = fmt::format("rank {} says so", peer_), .peer = peer_};
              }));
}

void VerbsChannel::tell(std::size_t link) noexcept {
  Status why;
  bool is_lost = false;
  bool is_back = false;
  {
    const std::lock_guard lock(outbox_.mutex);
    LinkRecord& record = failover_.links[link];
    is_lost = std::exchange(record.is_loss_untold, false);
    is_back = std::exchange(record.is_return_untold, false);
    if (is_lost) why = record.why;
  }
  // It can't have come back after a loss that was not told yet: that is this thread's work.
  if (is_back) {
    counters().rails_back.add(1);
    rank_.local.log->info(Subsystem::path, "rail {} to rank {} is back", link, peer_);
  }
  if (is_lost) {
    counters().rails_lost.add(1);
    rank_.local.log->warn(Subsystem::path,
                          "rail {} to rank {} ({} to {}) is lost, its share goes by the others: {}",
                          link, peer_, links_[link].rail->device->name(),
                          links_[link].peer.device.data(), why.detail().message);
  }
}

/// Whether its queue pairs are to be restarted now, by nobody else.
bool VerbsChannel::begin_anew(std::size_t link) noexcept {
  const std::lock_guard lock(outbox_.mutex);
  LinkRecord& record = failover_.links[link];
  if (record.state.phase() != LinkPhase::quiet || is_unresolved(link)) return false;
  const bool is_time = links_[link].rail->is_up && Clock::now() >= record.next_try;
  const bool is_asked = record.state.peer_begins_anew() || record.state.peer_is_down();
  if (!is_asked && !is_time) return false;
  record.state.advance();
  failover_.is_busy.store(true);
  return true;
}

void VerbsChannel::restart(std::size_t link) noexcept {
  try {
    for (std::size_t k = 0; k < per_link_; ++k) Revival(*pairs_[link * per_link_ + k]).restart();
  } catch (const std::exception&) {
    Status why = caught_status();
    fail(altered(why, [&](ErrorDetail& detail) { detail.peer = peer_; }));
    return rank_.path_failed(peer_, broken("path"));
  }
  const std::lock_guard lock(outbox_.mutex);
  LinkRecord& record = failover_.links[link];
  record.state.advance();
  record.has_offered = false;
  record.probes = {};
}

/// Offers the new beginning, and readies the queue pairs once the peer has done so, too.
void VerbsChannel::meet_again(std::size_t link) noexcept {
  Status why;
  {
    const std::lock_guard lock(outbox_.mutex);
    LinkRecord& record = failover_.links[link];
    if (record.state.phase() != LinkPhase::offered) return;
    if (!record.has_offered) {
      LinkMessage message = record.message(LinkMessage::Type::again, link);
      for (std::size_t k = 0; k < per_link_; ++k)
        message.pairs[k] = pairs_[link * per_link_ + k]->address();
      record.has_offered = post_link(message);
      if (!record.has_offered) return rank_.rails.schedule_poll();
    }
    if (!record.state.peer_begins_anew()) return;
    record.state.advance();
    why = ready(link);
    if (why.ok()) return;
  }
  lose_or_end(link, why);
}

Status VerbsChannel::ready(std::size_t link) noexcept {
  const LinkRecord& record = failover_.links[link];
  try {
    for (std::size_t k = 0; k < per_link_; ++k) {
      QueuePair& pair = *pairs_[link * per_link_ + k];
      pair.set_peer(record.peer[k]);
      pair.connect(links_[link].peer);
    }
    return {};
  } catch (const std::exception&) {
    return caught_status();
  }
}

void VerbsChannel::check_patience(std::size_t link) noexcept {
  {
    const std::lock_guard lock(outbox_.mutex);
    const LinkRecord& record = failover_.links[link];
    if (record.state.phase() != LinkPhase::draining ||
        Clock::now() < record.lost_at + kDrainPatience)
      return;
    bool is_drained = true;
    for (std::size_t k = 0; k < per_link_; ++k)
      is_drained = Revival(*pairs_[link * per_link_ + k]).is_drained() && is_drained;
    if (is_drained) return;  // there was no room to say so
  }
  fail(refuse(Code::path_failed, [&] {
    return ErrorDetail{.operation = "path",
                       .message = fmt::format("{}: what it had to send to rank {} was not flushed",
                                              links_[link].rail->device->name(), peer_),
                       .hint = "is the device alive? The system's log has the driver's words",
                       .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("path"));
}

}  // namespace weft::p2p::verbs
