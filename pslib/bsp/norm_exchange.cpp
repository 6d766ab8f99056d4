#include "pslib/bsp/norm_exchange.hpp"

#include <cstring>
#include <type_traits>

#include "base/fail.hpp"

namespace weft::pslib {

static_assert(std::is_trivially_copyable_v<ExactSum>);
static_assert(sizeof(ExactSum) == ExactSum::kWords * sizeof(std::int64_t));

NormExchange::NormExchange(World& world, const Description& table, std::size_t sums) {
  if (sums == 0 || table.roles.servers.size() < 2) return;
  sums_ = sums;
  mine_ = world.expose_published(table.norms(sums * ExactSum::kWords));
  mine_.also_needs(table.roles.others());
}

void NormExchange::attach(World& world, const Description& table, std::span<const int> needs,
                          Deadline deadline) {
  if (sums_ == 0) return;
  const PublishedSpec expected = table.norms(sums_ * ExactSum::kWords);
  for (const int server : table.roles.servers) {
    if (server == table.roles.rank) continue;
    Peer& peer = peers_.emplace_back();
    peer.slot = world.attach_published(server, expected, deadline);
    peer.slot.also_needs(needs);
    peer.sums.resize(sums_);
  }
}

Status NormExchange::tell(std::span<ExactSum> sums, Deadline deadline) noexcept {
  if (peers_.empty()) return {};
  auto buffer = mine_.next(deadline);
  if (!buffer) return buffer.status();
  std::memcpy(buffer->data(), sums.data(), sums.size_bytes());
  is_told_ = true;
  for (const Peer& peer : peers_)
    for (std::size_t i = 0; peer.is_in && i < sums.size(); ++i) sums[i].add(peer.sums[i]);
  return mine_.publish();
}

void NormExchange::end_round() noexcept {
  taken_ = 0;
  is_told_ = false;
  for (Peer& peer : peers_) peer.is_in = false;
}

Status NormExchange::take(std::size_t peer, std::span<ExactSum> sums, Deadline deadline) noexcept {
  Peer& from = peers_[peer];
  const auto arrival = from.slot.view(deadline);
  if (!arrival) return arrival.status();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    ExactSum theirs;
    std::memcpy(&theirs, arrival->tensor().data() + i * sizeof(ExactSum), sizeof theirs);
    if (!theirs.is_plausible())
      return refuse(Code::mismatch, [&] {
        return nonsense("add norms", from.slot.owner(), from.slot.spec().name,
                        "a sum of squares that no gradients have");
      });
    from.sums[i] = theirs;
  }
  for (std::size_t i = 0; is_told_ && i < sums.size(); ++i) sums[i].add(from.sums[i]);
  from.is_in = true;
  ++taken_;
  return {};
}

}  // namespace weft::pslib
