// Puts of more requests than are posted in one go: a little at each look, so that the polling
// thread is not held up. Meanwhile words and other slots' puts go between its requests; the next
// put of its slot waits, and so do messages, which must not overtake it.
#include <algorithm>
#include <new>

#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {
namespace {

/// Chains posted on each queue pair at each poll.
constexpr int kChainsAtOnce = 4;

}  // namespace

bool VerbsChannel::is_being_put(std::uint32_t notification_id) noexcept {
  if (long_puts_.count.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(outbox_.mutex);
  return std::ranges::any_of(long_puts_.places, [&](const auto& put) {
    return put != nullptr && put->count != 0 && put->notification_id == notification_id;
  });
}

LongPut* VerbsChannel::room_for_long_put(std::span<const Sending> sendings) noexcept {
  if (!outbox_.messages.empty()) return nullptr;  // it is their turn
  for (const Sending& sending : sendings) {
    QueuePair& pair = *pairs_[sending.pair];
    const std::lock_guard lock(pair.mutex());
    if (!pair.has_room_for(chain_of(pair).most_requests(), 1)) return nullptr;
  }
  const auto place = std::ranges::find_if(
      long_puts_.places, [](const auto& put) { return put == nullptr || put->count == 0; });
  if (place == long_puts_.places.end()) return nullptr;
  if (*place == nullptr) place->reset(new (std::nothrow) LongPut);
  return place->get();
}

Status VerbsChannel::put_by_and_by(PutWork& work, std::span<Sending> sendings, std::uint32_t silent,
                                   std::size_t main) noexcept {
  const std::lock_guard lock(outbox_.mutex);
  if (failover_.silent.load() != silent || main_pair() != main) return put_off();
  LongPut* put = room_for_long_put(sendings);
  if (put == nullptr) return full();
  const auto number = stripes_.begin(
      sendings, pairs_.size(),
      [this](std::size_t pair, std::uint64_t request) { return pairs_[pair]->has_ended(request); });
  if (!number) return full();
  put->stripe = *number;
  put->notification_id = work.notification_id;
  put->count = sendings.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sendings.size(); ++i) {
    const auto pieces = sendings[i].rest.pieces;
    const auto first = put->pieces.begin() + static_cast<std::ptrdiff_t>(kept);
    std::ranges::copy(pieces, first);
    put->sendings[i] = sendings[i];
    put->sendings[i].rest.pieces = {first, pieces.size()};
    put->sendings[i].all = put->sendings[i].rest.pieces;
    put->sendings[i].stripe = put->stripe;
    kept += pieces.size();
  }
  put->piece_count = kept;
  work.source_is_free = false;
  work.posted = kAllPairs << kPairShift | put->stripe;
  long_puts_.count.fetch_add(1, std::memory_order_release);
  go_on(*put);
  return {};
}

void VerbsChannel::go_on(LongPut& put) noexcept {
  bool is_over = true;
  for (Sending& sending : put.all()) {
    if (sending.is_out) continue;
    Step step = Step::posted;
    for (int i = 0; i < kChainsAtOnce && !sending.is_out && step == Step::posted; ++i)
      step = post_next(sending);
    if (!sending.is_out && step != Step::failed) {
      is_over = false;
      continue;
    }
    stripes_.set(
        put.stripe, sending.pair,
        sending.is_out ? sending.last : StripeTable::kCutShort | pairs_[sending.pair]->posted());
    if (sending.is_out && several_ && !sending.is_ordered) note_share(put, sending);
  }
  if (is_over) {
    put.count = 0;
    long_puts_.count.fetch_sub(1, std::memory_order_release);
  } else {
    // Nothing may be under way whose end would tell of room: the peer may have to post receives.
    rank_.rails.schedule_poll();
  }
}

void VerbsChannel::go_on_with_long_puts() noexcept {
  if (long_puts_.count.load(std::memory_order_relaxed) == 0) return;
  for (const auto& put : long_puts_.places)
    if (put != nullptr && put->count != 0) go_on(*put);
}

}  // namespace weft::p2p::verbs
