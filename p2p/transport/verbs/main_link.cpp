// Work that goes in order: small puts, words, messages, by one link, the main one. It is logged
// where there are several, until the peer has handled it. Once the main link is lost, another one
// is: the peer tells how much of it has come, and the rest is sent again from the log.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/fail.hpp"
#include "p2p/transport/verbs/payload.hpp"
#include "p2p/transport/verbs/revival.hpp"

namespace weft::p2p::verbs {
namespace {

/// So often threads are woken whose puts were put off: they may not have slept yet the first times.
constexpr int kRings = 16;
/// Bytes of a small put, which are kept.
constexpr std::uint32_t kMostInline = 128;

}  // namespace

Status VerbsChannel::put_off() noexcept {
  failover_.rings_owed.store(kRings);
  return full();
}

bool VerbsChannel::reach_by(std::size_t link, RemoteMemory& memory) noexcept {
  if (link == 0) return true;
  if (const auto keys = far_keys_.find(memory.key)) {
    memory.key = (*keys)[link - 1];
    return true;
  }
  fail(refuse(Code::path_failed, [&] {
    return ErrorDetail{
        .operation = "path",
        .message = fmt::format("memory of rank {} is known to {} alone, which is lost", peer_,
                               links_.front().peer.device.data()),
        .hint = "the log of the other rank says why it was not registered",
        .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("path"));
  return false;
}

/// Throws std::bad_alloc.
void VerbsChannel::prepare_failover() {
  failover_.links.resize(links_.size());
  failover_.logs.resize(pairs_.size());
  failover_.ordered.resize(per_link_);
  failover_.resending = std::make_unique<Resending>();
  std::uint32_t depth = 0;
  std::uint32_t most_inline = kMostInline;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    depth = std::max(depth, link_of(i).rail->completions->depth());
    most_inline = std::min(most_inline, pairs_[i]->limits().max_inline);
  }
  // All that goes by one may have to go by another.
  for (const auto& pair : pairs_) Revival(*pair).limit_inline(most_inline);
  for (OrderedLog& log : failover_.ordered) log.reserve(most_inline);
  failover_.words.make_room(depth);
}

// Logging.

/// A put of one small request where there are several links.
[[gnu::noinline]] Status VerbsChannel::put_in_order(PutWork& work) noexcept {
  const std::size_t main = main_pair();
  if (main == kNoPair) return put_off();
  const MemoryPiece piece{work.source, work.bytes, 0, 0};
  Sending sending{.pair = main + place_of(work), .is_inline = true, .is_ordered = true};
  sending.all = {&piece, std::size_t{work.bytes == 0 ? 0U : 1U}};
  sending.rest = {.pieces = sending.all, .to = work.payload};
  sending.whole_to = work.payload;
  sending.immediate =
      Immediate{work.notification_id, false, static_cast<std::uint32_t>(work.sequence)}.word();
  if (!reach_by(main / per_link_, sending.rest.to)) return broken("put");
  const Step step = post_next(sending);
  if (step == Step::no_room) return full();
  if (step == Step::failed) return broken("put");
  work.requests = 1;
  work.source_is_free = true;
  work.posted = (sending.pair + 1) << kPairShift | sending.last;
  return {};
}

/// Before it is posted, so that there is memory for it. False: there is none.
bool VerbsChannel::log_put(const Sending& sending) noexcept {
  OrderedItem& item = ordered_of(sending.pair).next();
  try {
    if (!sending.is_inline) {
      item.pieces.assign(sending.all.begin(), sending.all.end());
    } else {
      for (const MemoryPiece& piece : sending.all)
        item.bytes.insert(item.bytes.end(), piece.data, piece.data + piece.bytes);
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  item.to = sending.whole_to;
  item.immediate = sending.immediate;
  return true;
}

/// It was posted.
void VerbsChannel::add_put(const Sending& sending) noexcept {
  OrderedLog& log = ordered_of(sending.pair);
  log.at(log.sent() + 1).posted = sending.stripe != 0
                                      ? kAllPairs << kPairShift | sending.stripe
                                      : (sending.pair + 1) << kPairShift | sending.last;
  log.add();
}

/// An empty notification was posted.
void VerbsChannel::log_ack() noexcept {
  failover_.ordered[0].next().immediate = Immediate::kAck;
  failover_.ordered[0].add();
}

bool VerbsChannel::log_message(std::span<const std::byte> bytes, const Share* share) noexcept {
  OrderedItem& item = ordered_of(0).next();
  try {
    item.bytes.assign(bytes.begin(), bytes.end());
    if (share != nullptr && share->piece.bytes != 0) item.pieces.assign(1, share->piece);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (share != nullptr) item.to = share->to;
  if (share != nullptr && share->stripe != 0) item.posted = kAllPairs << kPairShift | share->stripe;
  item.is_message = true;
  return true;
}

// The main link is lost.

/// With the outbox's lock held, as all that follows. False: there is no other.
bool VerbsChannel::move_main(std::size_t lost) noexcept {
  // Tail words are not counted where they arrive.
  if (lost == failover_.main && notify_mode_ == NotifyMode::tail) return false;
  const auto goes_on = [&](LinkPhase phase) {
    for (std::size_t link = 0; link < links_.size(); ++link) {
      const LinkState& state = failover_.links[link].state;
      if (link != lost && state.phase() == phase && !state.peer_is_down()) return link;
    }
    return links_.size();
  };
  std::size_t next = goes_on(LinkPhase::up);
  // Its first request has passed.
  if (next == links_.size()) next = goes_on(LinkPhase::proven);
  if (next == links_.size()) return false;
  if (lost != failover_.main) return true;
  failover_.base.store(kNoPair);
  failover_.lost_mains |= 1U << lost;
  failover_.main = next;
  failover_.resending->has_begun = false;
  for (LinkRecord& record : failover_.links) {
    record.stage = LinkRecord::Stage::next;
    const LinkPhase phase = record.state.phase();
    record.owes_down =
        record.is_told_at_once &&
        (phase == LinkPhase::told || phase == LinkPhase::settling || phase == LinkPhase::settled);
  }
  return true;
}

/// The peer may not have heard it from the link that was the main one then.
bool VerbsChannel::say_down_again() noexcept {
  for (LinkRecord& record : failover_.links) {
    if (!record.owes_down) continue;
    if (!post_at_once(record.down)) return false;
    record.owes_down = false;
  }
  return true;
}

bool VerbsChannel::begin_to_resend() noexcept {
  Resending& resending = *failover_.resending;
  for (std::size_t k = 0; k < per_link_; ++k) {
    // The last count is the highest one: it was taken when the links before were lost, too.
    std::uint64_t came = 0;
    std::uint64_t link = 0;
    for (std::size_t i = 0; i < links_.size(); ++i)
      if ((failover_.lost_mains >> i & 1U) != 0 && failover_.links[i].ordered[k] >= came) {
        came = failover_.links[i].ordered[k];
        link = i;
      }
    const std::uint64_t sent = failover_.ordered[k].sent();
    if (came > sent || sent - came > OrderedLog::kRoom) {
      refuse_words(failover_.links[link].message(LinkMessage::Type::down, link));
      return false;
    }
    resending.next[k] = came + 1;
    if (k == 0) resending.came = came;
  }
  resending.next_word = failover_.words.first();
  resending.is_moving = false;
  resending.has_begun = true;
  return true;
}

/// False: not yet.
bool VerbsChannel::resend_ordered() noexcept {
  if (main_pair() != kNoPair) return true;
  // The peer must hear that a link is down before it hears what was said later.
  if (!say_down_again()) {
    rank_.rails.schedule_poll();
    return false;
  }
  for (std::size_t link = 0; link < links_.size(); ++link)
    if ((failover_.lost_mains >> link & 1U) != 0 &&
        failover_.links[link].state.phase() != LinkPhase::settling)
      return false;
  Resending& resending = *failover_.resending;
  if (!resending.has_begun && !begin_to_resend()) return false;
  bool is_done = true;
  for (std::size_t k = 0; k < per_link_ && is_done; ++k)
    while (is_done && resending.next[k] <= failover_.ordered[k].sent()) is_done = resend_item(k);
  is_done = is_done && resend_words(failover_.ordered[0].sent() + 1) && move_long_puts();
  if (!is_done) {
    rank_.rails.schedule_poll();
    return false;
  }
  failover_.lost_mains = 0;
  failover_.base.store(failover_.main * per_link_, std::memory_order_release);
  failover_.rings_owed.store(kRings);
  rank_.local.ring();
  rank_.tend(peer_);
  return true;
}

bool VerbsChannel::resend_item(std::size_t place) noexcept {
  Resending& resending = *failover_.resending;
  OrderedItem& item = failover_.ordered[place].at(resending.next[place]);
  const std::size_t pair = failover_.main * per_link_ + place;
  if (place == 0 && !resend_words(resending.next[place])) return false;
  if (!resending.is_moving && !prepare_again(item, resending, pair)) return false;
  resending.is_moving = true;
  while (!resending.sending.is_out)
    if (post_next(resending.sending) != Step::posted) return false;
  if (item.is_message) {
    std::byte* const buffer = free_send_buffer();
    if (buffer == nullptr) return false;
    std::ranges::copy(item.bytes, buffer);
    const std::lock_guard lock(pairs_[pair]->mutex());
    if (!post_buffer(pair, item.bytes.size())) return false;
  }
  resending.is_moving = false;
  ++resending.next[place];
  return true;
}

bool VerbsChannel::prepare_again(const OrderedItem& item, Resending& resending,
                                 std::size_t pair) noexcept {
  const std::size_t link = pair / per_link_;
  // Its bytes are there, by the NIC's word, and its memory may have another use: only the
  // notification was flushed at the peer.
  const bool has_arrived = item.posted != 0 && has_succeeded(item.posted);
  std::size_t count = 0;
  for (const MemoryPiece& piece : item.pieces) {
    if (has_arrived) break;
    resending.pieces[count] = piece;
    if (!key_by(link, resending.pieces[count++], item.posted)) return false;
  }
  const bool is_inline = !item.is_message && !item.bytes.empty();
  if (is_inline) resending.pieces[count++] = {item.bytes.data(), item.bytes.size(), 0, 0};
  RemoteMemory to = item.to;
  if (count != 0 && !reach_by(link, to)) return false;
  Sending& sending = resending.sending;
  sending = {.pair = pair, .is_inline = is_inline, .is_ordered = true, .is_again = true};
  sending.rest = {.pieces = {resending.pieces.data(), count}, .to = to};
  sending.immediate = item.immediate;
  if (item.is_message)
    sending.notify_method = NotifyMethod::none;
  else if (!immediates_)
    sending.notify_method = NotifyMethod::message;
  sending.is_out = item.is_message && count == 0;
  return true;
}

/// Those that were written before the item `before`, by their last value: an older one must not
/// show after a newer.
bool VerbsChannel::resend_words(std::uint64_t before) noexcept {
  Resending& resending = *failover_.resending;
  const std::size_t at = failover_.main * per_link_;
  for (; resending.next_word < failover_.words.end(); ++resending.next_word) {
    LoggedWord& logged = failover_.words.at(resending.next_word);
    if (logged.after >= before) return true;
    // The peer has handled something behind it, or its NIC has acknowledged it.
    if (logged.after < resending.came || pairs_[logged.pair]->has_succeeded(logged.request))
      continue;
    RemoteMemory place = logged.place;
    if (!reach_by(at / per_link_, place)) return false;
    QueuePair& pair = *pairs_[at];
    const std::lock_guard lock(pair.mutex());
    if (!pair.has_room_for(1, 0) ||
        !write_word(at, place, failover_.words.last_value(logged.place)))
      return false;
    logged.pair = at;
    logged.request = pair.posted();
  }
  return true;
}

bool VerbsChannel::key_by(std::size_t link, MemoryPiece& piece, std::uint64_t posted) noexcept {
  Regions& regions = *links_[link].rail->regions;
  Result<std::uint32_t> key = std::uint32_t{0};
  if (piece.adopted == 0) {
    key = regions.local_key(piece.data, piece.bytes);
  } else {
    try {
      auto lease = regions.lend(piece.adopted);
      if (lease.ok()) {
        key = lease->chunk().local_key;
        KeptPuts::Put kept;
        kept.posted = posted;
        kept.leases.push_back(std::move(*lease));
        kept_.keep(std::move(kept));
      } else {
        key = lease.status();
      }
    } catch (const std::bad_alloc&) {
      key = caught_status();
    }
  }
  if (key.ok()) {
    piece.key = *key;
    return true;
  }
  fail(altered(key.status(), [&](ErrorDetail& detail) {
    detail.code = Code::path_failed;
    detail.operation = "path";
    detail.peer = peer_;
  }));
  rank_.path_failed(peer_, broken("path"));
  return false;
}

/// Puts that go in order and were not posted to their ends begin anew.
bool VerbsChannel::move_long_puts() noexcept {
  for (const auto& put : long_puts_.places) {
    if (put == nullptr) continue;
    for (Sending& sending : put->all()) {
      if (sending.is_out || !sending.is_ordered) continue;
      const std::size_t to = failover_.main * per_link_ + sending.pair % per_link_;
      if (sending.pair == to) continue;
      for (MemoryPiece& piece : std::span(put->pieces).first(put->piece_count))
        if (!key_by(failover_.main, piece, kAllPairs << kPairShift | put->stripe)) return false;
      sending.rest = {.pieces = sending.all, .to = sending.whole_to};
      if (!reach_by(failover_.main, sending.rest.to)) return false;
      stripes_.hold(put->stripe, to);
      stripes_.set(put->stripe, sending.pair, 0);
      sending.pair = to;
    }
  }
  return true;
}

/// All that was lost with a link has come by others: nobody needs its requests any more.
void VerbsChannel::resolve(std::size_t link) noexcept {
  const LinkRecord& record = failover_.links[link];
  for (std::size_t k = 0; k < per_link_; ++k) {
    QueuePair& carrier = *pairs_[record.carrier + k];
    if (carrier.has_succeeded(record.carried[k])) continue;
    carrier.ask_for_completion();
    rank_.rails.schedule_poll();
    return;
  }
  for (std::size_t k = 0; k < per_link_; ++k) Revival(*pairs_[link * per_link_ + k]).resolve();
  failover_.unresolved.fetch_and(~(1U << link));
  kept_.release([this](std::uint64_t posted) { return has_ended(posted); });
  rank_.local.ring();
  rank_.tend(peer_);
}

}  // namespace weft::p2p::verbs
