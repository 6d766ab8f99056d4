// Large puts by several rails: the tensor in as many shares, of which the first comes with the put
// itself. Both ends count the striped puts, so nothing has to name them.
#include <algorithm>
#include <array>

#include "p2p/transport/tcp/payload.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {
namespace {

constexpr std::size_t kStripeBytes = 512u << 10;
constexpr std::size_t kLine = 64;
/// Puts whose rails' ends are remembered: more than can be under way.
constexpr std::size_t kRemembered = 256;

}  // namespace

bool TcpChannel::is_to_be_striped(const Payload& payload) const noexcept {
  return rails_.size() > 1 && payload.count == 1 && payload.bytes >= kStripeBytes &&
         !payload.packed;
}

Status TcpChannel::put_in_stripes(PutWork& work, const Head& head, std::span<const iovec> runs) {
  for (const auto& rail : rails_)
    if (rail->out.waiting() >= kMostWaiting) return full();
  auto* const data = static_cast<std::byte*>(runs.front().iov_base);
  const std::size_t bytes = runs.front().iov_len;
  const std::size_t share = (bytes / rails_.size() + kLine - 1) / kLine * kLine;
  sending_.stripe_ends.resize(kRemembered);
  Ends& ends = sending_.stripe_ends[++sending_.stripes % kRemembered];
  ends.assign(rails_.size(), 0);
  bool out = true;
  // The put itself last: most often its pieces are there before it.
  for (std::size_t i = rails_.size(); i-- > 0;) {
    Rail& rail = *rails_[i];
    const std::size_t first = std::min(i * share, bytes);
    const std::size_t last = i + 1 == rails_.size() ? bytes : std::min(first + share, bytes);
    const iovec run{data + first, last - first};
    Head part = head;
    part.bytes = run.iov_len;
    part.address = head.address + first;
    if (i == 0)
      part.flags = static_cast<std::uint8_t>(rails_.size() - 1);
    else
      part.kind = Kind::piece;
    const Status status = send_put(rail, part, std::span(&run, 1), {}, true);
    if (!status.ok()) return status;  // the path has failed: there was room
    ends[i] = rail.out.begun();
    out = out && rail.out.sent() >= ends[i];
    work.copied += rail.pipe.is_sealed() ? run.iov_len : 0;
  }
  work.source_is_free = out;
  if (work.delivered || !out)
    work.posted = sending_.stripes | kStriped | (work.delivered ? kDelivered : 0);
  return {};
}

std::uint64_t TcpChannel::stripe_end(std::uint64_t stripe) noexcept {
  const std::lock_guard lock(sending_.mutex);
  // Later ones have taken its place: it has long been out.
  if (stripe + kRemembered <= sending_.stripes) return main_rail().out.sent();
  const Ends& ends = sending_.stripe_ends[stripe % kRemembered];
  for (std::size_t i = 0; i < rails_.size(); ++i)
    if (rails_[i]->out.sent() < ends[i]) return 0;
  return ends[0];
}

bool TcpChannel::has_all_pieces() const noexcept {
  return std::all_of(rails_.begin() + 1, rails_.end(),
                     [this](const auto& rail) { return rail->pieces >= receiving_.stripes_seen; });
}

bool TcpChannel::end_piece(Rail& rail) {
  ++rail.pieces;
  if (!receiving_.stalled || !has_all_pieces()) return true;
  const Head put = *receiving_.stalled;
  receiving_.stalled.reset();
  return end_put(put);
}

}  // namespace weft::p2p::tcp
