// Large tensors by all queue pairs, and so by all ports that both ends have: each carries a share
// by its rate, and ends it with a notification. The owner counts these.
#include <fmt/format.h>

#include <algorithm>

#include "p2p/transport/verbs/payload.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::size_t kLeastShare = 64U << 10U;

}  // namespace

/// A put's shares.
struct VerbsChannel::Parts {
  // Links by bit.
  std::uint32_t silent = 0;    ///< that have none
  std::uint32_t carrying = 0;  ///< that have both keys
  std::array<MemoryPiece, NotificationTable::kMaxQueuePairs> pieces;
  std::array<Sending, NotificationTable::kMaxQueuePairs> sendings;
};

struct VerbsChannel::LinkKeys {
  std::array<std::uint32_t, kMostRails> local{};
  std::array<std::uint32_t, kMostRails> remote{};
};

bool VerbsChannel::far_keys_of(std::uint32_t chunk, RemoteKeys::Keys& keys) noexcept {
  if (!several_) return false;
  for (std::size_t i = 1; i < links_.size(); ++i) {
    const auto region = links_[i].rail->regions->of_chunk(chunk);
    if (!region.ok()) {
      rank_.local.log->warn(Subsystem::path, "memory that rank {} needs is known by {} alone: {}",
                            peer_, near().device->name(), region.status().text());
      return false;
    }
    keys[i - 1] = region->remote_key;
  }
  return true;
}

void VerbsChannel::go_alone(const Status& why) noexcept {
  if (!told_alone_.exchange(true))
    rank_.local.log->warn(Subsystem::path, "tensors to rank {} go by {} alone: {}", peer_,
                          near().device->name(), why.text());
}

std::uint32_t VerbsChannel::keys_by_link(const PutWork& work, Payload& payload,
                                         LinkKeys& keys) noexcept {
  const std::size_t own = payload.link;
  const std::uint32_t alone = 1U << own;
  if (payload.count != 0) keys.local[own] = payload.pieces[0].key;
  keys.remote[0] = work.payload.key;
  if (!several_) return alone;
  RemoteMemory to = work.payload;
  if (!reach_by(own, to)) return 0;
  keys.remote[own] = to.key;
  if (!payload.is_one() || payload.bytes < kStripeBytes) return alone;
  const auto remote = far_keys_.find(work.payload.key);
  if (!remote) return alone;
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Regions& regions = *links_[i].rail->regions;
    all |= 1U << i;
    if (i != 0) keys.remote[i] = (*remote)[i - 1];
    if (i == own) continue;
    if (payload.pieces[0].adopted != 0) {
      auto lease = regions.lend(payload.pieces[0].adopted);
      if (!lease.ok()) return go_alone(lease.status()), alone;
      keys.local[i] = lease->chunk().local_key;
      payload.kept.leases.push_back(std::move(*lease));
      continue;
    }
    const auto key = regions.local_key(payload.pieces[0].data, payload.bytes);
    if (!key.ok()) return go_alone(key.status()), alone;
    keys.local[i] = *key;
  }
  return all;
}

std::uint64_t VerbsChannel::rate_of_pair(std::size_t pair) const noexcept {
  const auto rate_of = [](const Link& link) {
    return std::uint64_t{std::min(link.rail->device->address().rate, link.peer.rate)};
  };
  // A rate that is not known is taken to be the first one's.
  const std::uint64_t rate = rate_of(links_[pair / per_link_]);
  return std::max<std::uint64_t>(rate != 0 ? rate : rate_of(links_.front()), 1);
}

std::size_t VerbsChannel::cut(PutWork& work, const Payload& payload, const LinkKeys& keys,
                              Parts& parts) noexcept {
  const auto carries = [&](std::size_t i) {
    return ((parts.carrying & ~parts.silent) >> (i / per_link_) & 1U) != 0;
  };
  std::uint64_t rates = 0;
  for (std::size_t i = 0; i < pairs_.size(); ++i) rates += carries(i) ? rate_of_pair(i) : 0;
  std::uint64_t before = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if ((parts.silent >> (i / per_link_) & 1U) != 0) continue;
    std::size_t end = payload.bytes;
    if (carries(i)) before += rate_of_pair(i);
    if (before < rates) {
      const auto share =
          static_cast<std::size_t>(static_cast<double>(payload.bytes) *
                                   static_cast<double>(before) / static_cast<double>(rates));
      end = std::min(payload.bytes, (share + kLeastShare - 1) / kLeastShare * kLeastShare);
    }
    // Many runs go by one of them.
    MemoryPiece& part = parts.pieces[count];
    Sending& sending = parts.sendings[count++];
    part = payload.is_one() ? payload.part(first, end - first) : MemoryPiece{};
    const bool takes_all = !payload.is_one() && i == place_of(work);
    sending = {.pair = i, .notify_method = NotifyMethod::separate};
    sending.immediate =
        Immediate{work.notification_id, true, static_cast<std::uint32_t>(work.sequence)}.word();
    sending.whole = part;
    if (i == payload.link * per_link_) sending.speaks_for = parts.silent;
    sending.whole_to = {work.payload.address + (payload.is_one() ? first : 0), keys.remote[0]};
    part.key = keys.local[i / per_link_];
    sending.rest = {.pieces = takes_all ? payload.all() : std::span(&part, part.bytes == 0 ? 0 : 1),
                    .to = {sending.whole_to.address, keys.remote[i / per_link_]}};
    sending.is_inline =
        !payload.on_gpu && fits_inline(takes_all ? payload.bytes : part.bytes, *pairs_[i]);
    work.requests += requests_for(sending.rest, *pairs_[i]);
    first = end;
  }
  return count;
}

Status VerbsChannel::put_in_pieces(PutWork& work, Payload& payload) noexcept {
  // While both ends find out what a lost link has carried, and what it carries again.
  if (failover_.unsettled.load(std::memory_order_acquire) != 0) return put_off();
  LinkKeys keys;
  Parts parts;
  parts.silent = failover_.silent.load(std::memory_order_acquire);
  // The main link has just moved there, and is used once the peer is ready for it.
  if ((parts.silent >> payload.link & 1U) != 0) return put_off();
  parts.carrying = keys_by_link(work, payload, keys);
  if (parts.carrying == 0) return broken("put");
  work.requests = 0;
  const std::size_t count = cut(work, payload, keys, parts);
  return put_by_and_by(work, std::span(parts.sendings).first(count), parts.silent,
                       payload.link * per_link_);
}

}  // namespace weft::p2p::verbs
