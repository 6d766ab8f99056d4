// A link fails where there are several: both ends stop its queue pairs, tell each other what has
// arrived, and send what was lost by the main link. No byte of the old way can come late: the owner
// tells its count only when its queue pair is in error and drained, and nothing is sent again
// before that.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/fail.hpp"
#include "p2p/transport/verbs/device/failures.hpp"
#include "p2p/transport/verbs/revival.hpp"
#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {

std::vector<RailReport> VerbsChannel::rails() const {
  const std::lock_guard lock(outbox_.mutex);
  std::vector<RailReport> reports;
  for (std::size_t i = 0; i < links_.size(); ++i)
    reports.push_back(
        {links_[i].rail->device->name(), links_[i].peer.device.data(),
         i >= failover_.links.size() || failover_.links[i].state.phase() == LinkPhase::up});
  return reports;
}

// The signs of a loss.

bool VerbsChannel::is_lost_by(int queue_pair, const ibv_wc& completion) noexcept {
  if (!several_ || !is_open() || !is_loss(completion.status)) return false;
  bool is_refused = false;
  if (!end_.unless_decided([&] { is_refused = refused_; }) || is_refused) return false;
  const std::size_t link = static_cast<std::size_t>(queue_pair) / per_link_;
  {
    const std::lock_guard lock(outbox_.mutex);
    if (!failover_.links[link].state.may_be_lost()) return true;
  }
  try {
    return lose(link, failure_of(completion, *links_[link].rail->device, peer_, queue_pair));
  } catch (const std::bad_alloc&) {
    return lose(link, Status(ErrorDetail{.code = Code::path_failed, .peer = peer_}));
  }
}

bool VerbsChannel::lose(std::size_t link, const Status& why) noexcept {
  if (!is_open()) return true;
  {
    const std::lock_guard lock(outbox_.mutex);
    LinkRecord& record = failover_.links[link];
    if (!record.state.may_be_lost()) return true;
    if (!move_main(link)) return false;
    (void)record.state.lose();
    if (record.was_up) {
      record.is_loss_untold = true;
      record.why = why;
    }
    record.lost_at = Clock::now();
    failover_.unresolved.fetch_or(1U << link);
    failover_.losses[link].fetch_add(1);
    failover_.silent.fetch_or(1U << link);
    failover_.unsettled.fetch_or(1U << link);
    failover_.is_busy.store(true);
    for (std::size_t k = 0; k < per_link_; ++k) Revival(*pairs_[link * per_link_ + k]).lose();
    hand_over_unposted(link);
  }
  rank_.tend(peer_);
  return true;
}

void VerbsChannel::lose_or_end(std::size_t link, const Status& why) noexcept {
  if (lose(link, why)) return;
  fail(altered(why, [&](ErrorDetail& detail) {
    detail.code = Code::path_failed;
    detail.operation = "path";
    detail.peer = peer_;
  }));
  rank_.path_failed(peer_, broken("path"));
}

/// Shares that were not posted to their ends are lost with those that were.
void VerbsChannel::hand_over_unposted(std::size_t link) noexcept {
  for (const auto& put : long_puts_.places) {
    if (put == nullptr) continue;
    for (Sending& sending : put->all()) {
      if (sending.is_out || sending.is_ordered || sending.pair / per_link_ != link) continue;
      sending.is_out = true;
      const std::uint64_t number = Revival(*pairs_[sending.pair]).skip_notification();
      log_of(sending.pair).at(number) = {.number = number,
                                         .stripe = put->stripe,
                                         .piece = sending.whole,
                                         .to = sending.whole_to,
                                         .immediate = sending.immediate,
                                         .speaks_for = sending.speaks_for,
                                         .is_held = true};
    }
  }
}

void VerbsChannel::note_share(const LongPut& put, const Sending& sending) noexcept {
  log_of(sending.pair).at(sending.notification) = {.number = sending.notification,
                                                   .stripe = put.stripe,
                                                   .request = sending.last,
                                                   .piece = sending.whole,
                                                   .to = sending.whole_to,
                                                   .immediate = sending.immediate,
                                                   .speaks_for = sending.speaks_for};
}

// From phase to phase.

void VerbsChannel::go_on_with_links() noexcept {
  if (!failover_.is_busy.load(std::memory_order_relaxed)) return;
  if (has_failed()) return failover_.is_busy.store(!drop_lost());
  if (!say_down_again()) rank_.rails.schedule_poll();
  bool is_busy = false;
  for (std::size_t link = 0; link < links_.size(); ++link) {
    go_on_with(link);
    LinkRecord& record = failover_.links[link];
    const LinkPhase phase = record.state.phase();
    if (is_unresolved(link) && (phase == LinkPhase::settled || phase == LinkPhase::quiet))
      resolve(link);
    is_busy = is_busy || record.owes_down || is_unresolved(link) ||
              (phase != LinkPhase::up && phase != LinkPhase::quiet);
  }
  failover_.is_busy.store(is_busy);
}

void VerbsChannel::go_on_with(std::size_t link) noexcept {
  LinkRecord& record = failover_.links[link];
  for (bool goes_on = true; goes_on && !has_failed();) {
    switch (record.state.phase()) {
      case LinkPhase::draining:
        goes_on = tell_down(link);
        break;
      case LinkPhase::told:
        goes_on = record.state.peer_is_down() && begin_to_settle(link);
        break;
      case LinkPhase::settling:
        goes_on = resend_ordered() && send_again(link) && settle(link);
        break;
      case LinkPhase::proving:
        goes_on = prove(link);
        break;
      case LinkPhase::proven:
        goes_on = resume(link);
        break;
      default:
        return;
    }
    if (goes_on) record.state.advance();
  }
}

bool VerbsChannel::tell_down(std::size_t link) noexcept {
  LinkRecord& record = failover_.links[link];
  LinkMessage message = record.message(LinkMessage::Type::down, link);
  for (std::size_t k = 0; k < per_link_; ++k) {
    QueuePair& pair = *pairs_[link * per_link_ + k];
    if (!Revival(pair).is_drained()) return false;
    message.handled[k] = pair.notifications_seen();
    message.ordered[k] = failover_.seen[k].load(std::memory_order_acquire);
  }
  // The NIC has let go of them; the log has what they hold.
  for (std::size_t i = 0; i < kSendBuffers; ++i)
    if (outbox_.send_pairs[i] / per_link_ == link) outbox_.send_ends[i] = 0;
  // The peer may need it to send again what goes in order. If it is not sure to be of the same
  // generation, it can't have used the link.
  record.is_told_at_once = record.state.peer_begins_anew();
  message.is_at_once = record.is_told_at_once ? 1 : 0;
  if (record.is_told_at_once ? post_at_once(message) : post_link(message)) {
    record.down = message;
    record.owes_down = false;
    return true;
  }
  rank_.rails.schedule_poll();
  return false;
}

void VerbsChannel::hold(std::size_t pair, Share& share) noexcept {
  if (share.is_held || share.stripe == 0) return;
  if (pairs_[pair]->has_succeeded(share.request)) {
    // Its bytes are there, by the NIC's word, and the put may have ended: only the notification was
    // flushed at the peer.
    share.piece.bytes = 0;
    share.stripe = 0;
    return;
  }
  share.is_held = true;
  stripes_.hold(share.stripe, pair);
}

bool VerbsChannel::begin_to_settle(std::size_t link) noexcept {
  LinkRecord& record = failover_.links[link];
  for (std::size_t k = 0; k < per_link_; ++k) {
    const std::size_t pair = link * per_link_ + k;
    const std::uint64_t handled = record.handled[k];
    const std::uint64_t taken = Revival(*pairs_[pair]).taken();
    const std::uint64_t sent = pairs_[pair]->notifications_sent();
    bool is_possible = taken <= handled && handled <= sent && sent - taken <= ShareLog::kRoom;
    for (std::uint64_t i = taken + 1; is_possible && i <= sent; ++i) {
      Share& share = log_of(pair).at(i);
      if (share.number != i) continue;
      if (i <= handled)
        is_possible = share.request != 0;
      else
        hold(pair, share);
    }
    if (is_possible) continue;
    refuse_words(record.message(LinkMessage::Type::down, link));
    return false;
  }
  record.stage = LinkRecord::Stage::next;
  record.pair = 0;
  record.notification = record.handled[0] + 1;
  return true;
}

bool VerbsChannel::send_share_again(LinkRecord& record, std::size_t pair, Share& share) noexcept {
  if (record.stage == LinkRecord::Stage::next) {
    record.piece = share.piece;
    RemoteMemory to = share.to;
    const std::uint64_t posted = kAllPairs << kPairShift | share.stripe;
    if (record.piece.bytes != 0 &&
        (!key_by(failover_.main, record.piece, posted) || !reach_by(failover_.main, to)))
      return false;
    record.sending = {.pair = main_pair(), .notify_method = NotifyMethod::none};
    record.sending.rest = {.pieces = {&record.piece, std::size_t{share.piece.bytes == 0 ? 0U : 1U}},
                           .to = to};
    record.sending.is_out = record.sending.rest.pieces.empty();
    record.stage = LinkRecord::Stage::moving;
  }
  while (!record.sending.is_out)
    if (post_next(record.sending) != Step::posted) return false;
  const std::size_t link = pair / per_link_;
  LinkMessage message = record.message(LinkMessage::Type::resent, link);
  message.pair = static_cast<std::uint32_t>(pair % per_link_);
  message.immediate = share.immediate;
  message.speaks_for = share.speaks_for;
  if (!post_send(MessageHead::Kind::link, as_bytes(message), &share)) return false;
  const std::size_t main = main_pair();
  if (share.stripe != 0) stripes_.move(share.stripe, pair, main, pairs_[main]->posted());
  share.is_held = false;
  record.stage = LinkRecord::Stage::next;
  return true;
}

bool VerbsChannel::send_again(std::size_t link) noexcept {
  LinkRecord& record = failover_.links[link];
  while (record.pair < per_link_) {
    const std::size_t pair = link * per_link_ + record.pair;
    for (; record.notification <= pairs_[pair]->notifications_sent(); ++record.notification) {
      Share& share = log_of(pair).at(record.notification);
      if (share.number != record.notification || send_share_again(record, pair, share)) continue;
      rank_.rails.schedule_poll();
      return false;
    }
    if (++record.pair < per_link_) record.notification = record.handled[record.pair] + 1;
  }
  return true;
}

bool VerbsChannel::settle(std::size_t link) noexcept {
  LinkRecord& record = failover_.links[link];
  LinkMessage message = record.message(LinkMessage::Type::settled, link);
  for (std::size_t k = 0; k < per_link_; ++k)
    message.handled[k] = pairs_[link * per_link_ + k]->notifications_sent();
  if (!post_link(message)) {
    rank_.rails.schedule_poll();
    return false;
  }
  record.was_up = false;
  record.next_try = Clock::now() + record.pause;
  record.pause = std::min(2 * record.pause, LinkRecord::kLongestPause);
  record.carrier = main_pair();
  for (std::size_t k = 0; k < per_link_; ++k) {
    record.carried[k] = pairs_[record.carrier + k]->posted();
    log_of(link * per_link_ + k).clear();
  }
  failover_.unsettled.fetch_and(~(1U << link));
  rank_.local.ring();
  rank_.tend(peer_);
  return true;
}

/// The path is over before all was sent again: its puts end with the requests that were posted of
/// them, by either way. False: not all of these are sure to show.
bool VerbsChannel::drop_lost() noexcept {
  bool all = true;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    QueuePair& pair = *pairs_[i];
    if (is_unresolved(i / per_link_)) {
      all = Revival(pair).is_drained() && all;
    } else if (!pair.has_ended(pair.posted())) {
      pair.ask_for_completion();
      all = false;
    }
  }
  if (!all) return false;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    for (Share& share : log_of(i)) {
      if (!share.is_held) continue;
      share.is_held = false;
      stripes_.cut(share.stripe, i, pairs_[i]->posted(), i, pairs_[i]->posted());
    }
    Revival(*pairs_[i]).abandon();
  }
  return true;
}

}  // namespace weft::p2p::verbs
