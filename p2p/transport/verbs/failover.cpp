// A link besides the first fails: both ends stop its queue pairs, tell each other what has arrived,
// and send the lost shares by the first queue pair. No byte of the old way can come late: the owner
// tells its count only when its queue pair is in error and drained, and a share is sent again only
// after that.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/fail.hpp"
#include "p2p/transport/verbs/device/failures.hpp"
#include "p2p/transport/verbs/far_link.hpp"
#include "p2p/transport/verbs/revival.hpp"

namespace weft::p2p::verbs {

VerbsChannel::Failover::Failover() = default;
VerbsChannel::Failover::~Failover() = default;

std::vector<RailReport> VerbsChannel::rails() const {
  const std::lock_guard lock(outbox_.mutex);
  std::vector<RailReport> reports;
  for (std::size_t i = 0; i < links_.size(); ++i)
    reports.push_back({links_[i].rail->device->name(), links_[i].peer.device.data(),
                       i == 0 || i > failover_.links.size() ||
                           failover_.links[i - 1].state.phase() == LinkPhase::up});
  return reports;
}

// The signs of a loss.

bool VerbsChannel::is_lost_by(int queue_pair, const ibv_wc& completion) noexcept {
  const auto pair = static_cast<std::size_t>(queue_pair);
  if (!is_far(pair) || !is_open() || !is_loss(completion.status)) return false;
  bool is_refused = false;
  if (!end_.unless_decided([&] { is_refused = refused_; }) || is_refused) return false;
  const std::size_t link = pair / per_link_;
  {
    const std::lock_guard lock(outbox_.mutex);
    if (!failover_.links[link - 1].state.may_be_lost()) return true;
  }
  try {
    lose(link, failure_of(completion, *links_[link].rail->device, peer_, queue_pair));
  } catch (const std::bad_alloc&) {
    lose(link, Status(ErrorDetail{.code = Code::path_failed, .peer = peer_}));
  }
  return true;
}

void VerbsChannel::lose(std::size_t link, const Status& why) noexcept {
  if (!is_open()) return;
  {
    const std::lock_guard lock(outbox_.mutex);
    FarLink& far = failover_.links[link - 1];
    if (!far.state.lose()) return;
    if (far.was_up) {
      far.is_loss_untold = true;
      far.why = why;
    }
    far.lost_at = Clock::now();
    failover_.silent.fetch_or(1U << link);
    failover_.unsettled.fetch_or(1U << link);
    failover_.is_busy.store(true);
    for (std::size_t k = 0; k < per_link_; ++k) Revival(*pairs_[link * per_link_ + k]).lose();
    hand_over_unposted(link);
  }
  rank_.tend(peer_);
}

/// Shares that were not posted to their ends are lost with those that were.
void VerbsChannel::hand_over_unposted(std::size_t link) noexcept {
  for (const auto& put : long_puts_.places) {
    if (put == nullptr) continue;
    for (Sending& sending : put->all()) {
      if (sending.is_out || sending.pair / per_link_ != link) continue;
      sending.is_out = true;
      log_of(sending.pair).at(Revival(*pairs_[sending.pair]).skip_notification()) = {
          .stripe = put->stripe,
          .piece = sending.whole,
          .to = sending.whole_to,
          .immediate = sending.immediate,
          .is_held = true};
    }
  }
}

void VerbsChannel::note_share(const LongPut& put, const Sending& sending) noexcept {
  log_of(sending.pair).at(pairs_[sending.pair]->notifications_sent()) = {
      .stripe = put.stripe,
      .request = sending.last,
      .piece = sending.whole,
      .to = sending.whole_to,
      .immediate = sending.immediate};
}

// The peer's words.

void VerbsChannel::on_link_message(std::span<const std::byte> bytes) noexcept {
  const auto message = parse<LinkMessage>(bytes);
  if (!message) return refuse_words({});
  const std::size_t link = message->link;
  if (link == 0 || link >= links_.size() || message->pair >= per_link_)
    return refuse_words(*message);
  {
    const std::lock_guard lock(outbox_.mutex);
    FarLink& far = failover_.links[link - 1];
    if (!far.state.hear(message->type, message->generation)) return refuse_words(*message);
    if (message->type == LinkMessage::Type::down) far.handled = message->handled;
    if (message->type == LinkMessage::Type::again) far.peer = message->pairs;
  }
  const std::uint32_t bit = 1U << link;
  switch (message->type) {
    case LinkMessage::Type::resent: {
      const std::size_t pair = link * per_link_ + message->pair;
      notified(static_cast<int>(pair), message->immediate);
      Revival(*pairs_[pair]).count_resent();
      return;
    }
    case LinkMessage::Type::settled:
      failover_.spoken_for |= bit;
      break;
    case LinkMessage::Type::resumed:
      failover_.spoken_for &= ~bit;
      return;
    default:
      break;
  }
  rank_.tend(peer_);
}

void VerbsChannel::refuse_words(const LinkMessage& message) noexcept {
  fail(refuse(Code::system, [&] {
    return ErrorDetail{.operation = "path",
                       .message = fmt::format(
                           "rank {} has told nonsense about rail {} ({}, {})", peer_, message.link,
                           static_cast<std::uint32_t>(message.type), message.generation),
                       .hint = "this is a defect of weft: please report it with WEFT_LOG=debug",
                       .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("path"));
}

/// The first queue pair's notification counts for those of lost links, too.
NotificationTable::Arrival VerbsChannel::arrived(const Immediate& put, int queue_pair) noexcept {
  if (queue_pair == 0 && failover_.spoken_for != 0)
    for (std::size_t i = per_link_; i < pairs_.size(); ++i)
      if ((failover_.spoken_for >> (i / per_link_) & 1U) != 0)
        (void)expected_.piece_arrived(put.index, put.low_bits(), static_cast<int>(i));
  return expected_.piece_arrived(put.index, put.low_bits(), queue_pair);
}

// From phase to phase.

void VerbsChannel::go_on_with_links() noexcept {
  if (!failover_.is_busy.load(std::memory_order_relaxed)) return;
  if (has_failed()) return failover_.is_busy.store(!drop_lost_shares());
  bool is_busy = false;
  for (std::size_t link = 1; link < links_.size(); ++link) {
    go_on_with(link);
    const LinkPhase phase = failover_.links[link - 1].state.phase();
    is_busy = is_busy || (phase != LinkPhase::up && phase != LinkPhase::quiet);
  }
  failover_.is_busy.store(is_busy);
}

void VerbsChannel::go_on_with(std::size_t link) noexcept {
  FarLink& far = failover_.links[link - 1];
  for (bool goes_on = true; goes_on && !has_failed();) {
    switch (far.state.phase()) {
      case LinkPhase::draining:
        goes_on = tell_down(link);
        break;
      case LinkPhase::told:
        goes_on = far.state.peer_is_down() && begin_to_settle(link);
        break;
      case LinkPhase::settling:
        goes_on = send_again(link) && settle(link);
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
    if (goes_on) far.state.advance();
  }
}

bool VerbsChannel::tell_down(std::size_t link) noexcept {
  LinkMessage message = failover_.links[link - 1].message(LinkMessage::Type::down, link);
  for (std::size_t k = 0; k < per_link_; ++k) {
    QueuePair& pair = *pairs_[link * per_link_ + k];
    if (!Revival(pair).is_drained()) return false;
    message.handled[k] = pair.notifications_seen();
  }
  if (post_link(message)) return true;
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
  FarLink& far = failover_.links[link - 1];
  for (std::size_t k = 0; k < per_link_; ++k) {
    const std::size_t pair = link * per_link_ + k;
    const std::uint64_t handled = far.handled[k];
    const std::uint64_t taken = Revival(*pairs_[pair]).taken();
    const std::uint64_t sent = pairs_[pair]->notifications_sent();
    bool is_possible = taken <= handled && handled <= sent && sent - taken <= ShareLog::kRoom;
    for (std::uint64_t i = taken + 1; is_possible && i <= sent; ++i) {
      Share& share = log_of(pair).at(i);
      if (i <= handled)
        is_possible = share.request != 0;
      else
        hold(pair, share);
    }
    if (is_possible) continue;
    refuse_words(far.message(LinkMessage::Type::down, link));
    return false;
  }
  far.stage = FarLink::Stage::next;
  far.pair = 0;
  far.notification = far.handled[0] + 1;
  return true;
}

bool VerbsChannel::send_share_again(FarLink& far, std::size_t pair, Share& share) noexcept {
  if (far.stage == FarLink::Stage::next) {
    far.piece = share.piece;
    far.sending = {.pair = 0, .notify_method = NotifyMethod::none};
    far.sending.rest = {.pieces = {&far.piece, std::size_t{share.piece.bytes == 0 ? 0U : 1U}},
                        .to = share.to};
    far.sending.is_out = far.sending.rest.pieces.empty();
    far.stage = FarLink::Stage::moving;
  }
  while (!far.sending.is_out)
    if (post_next(far.sending) != Step::posted) return false;
  const std::size_t link = pair / per_link_;
  LinkMessage message = far.message(LinkMessage::Type::resent, link);
  message.pair = static_cast<std::uint32_t>(pair % per_link_);
  message.immediate = share.immediate;
  if (!post_link(message)) return false;
  if (share.stripe != 0) stripes_.move(share.stripe, pair, 0, pairs_.front()->posted());
  share.is_held = false;
  far.stage = FarLink::Stage::next;
  return true;
}

bool VerbsChannel::send_again(std::size_t link) noexcept {
  FarLink& far = failover_.links[link - 1];
  while (far.pair < per_link_) {
    const std::size_t pair = link * per_link_ + far.pair;
    for (; far.notification <= pairs_[pair]->notifications_sent(); ++far.notification)
      if (!send_share_again(far, pair, log_of(pair).at(far.notification))) {
        rank_.rails.schedule_poll();
        return false;
      }
    if (++far.pair < per_link_) far.notification = far.handled[far.pair] + 1;
  }
  return true;
}

bool VerbsChannel::settle(std::size_t link) noexcept {
  FarLink& far = failover_.links[link - 1];
  if (!post_link(far.message(LinkMessage::Type::settled, link))) {
    rank_.rails.schedule_poll();
    return false;
  }
  far.was_up = false;
  far.next_try = Clock::now() + far.pause;
  far.pause = std::min(2 * far.pause, FarLink::kLongestPause);
  for (std::size_t k = 0; k < per_link_; ++k) {
    const std::size_t pair = link * per_link_ + k;
    Revival(*pairs_[pair]).resolve();
    log_of(pair).clear();
  }
  failover_.unsettled.fetch_and(~(1U << link));
  kept_.release([this](std::uint64_t posted) { return has_ended(posted); });
  rank_.local.ring();
  rank_.tend(peer_);
  return true;
}

/// The path is over before they were sent again: their puts end, with the requests that were posted
/// of them. False: not all of these are sure to show.
bool VerbsChannel::drop_lost_shares() noexcept {
  bool all = true;
  for (std::size_t pair = per_link_; pair < pairs_.size(); ++pair) {
    if (failover_.links[pair / per_link_ - 1].state.phase() == LinkPhase::draining)
      all = Revival(*pairs_[pair]).is_drained() && all;
    for (Share& share : log_of(pair)) {
      if (!share.is_held) continue;
      share.is_held = false;
      stripes_.cut(share.stripe, pair, pairs_[pair]->posted(), 0, pairs_.front()->posted());
    }
  }
  return all;
}

}  // namespace weft::p2p::verbs
