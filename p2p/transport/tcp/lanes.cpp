// Sending by several rails: large tensors in pieces, which any rail takes; all else by one rail in
// order, and again by another one if that fails. Lent tensors stay so until the peer has taken
// them.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "p2p/transport/ending.hpp"
#include "p2p/transport/tcp/payload.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {
namespace {

constexpr std::size_t kStripeBytes = 512u << 10;
/// Puts that the peer has not taken yet; a stripe's number in a piece has 8 bits.
constexpr std::uint64_t kMostUntaken = 128;

bool holds_messages(RecordRing& ring) noexcept {
  for (std::size_t i = 0; i < ring.size(); ++i)
    if (is_of_messages(ring.at(i).head.kind)) return true;
  return false;
}

}  // namespace

bool TcpChannel::is_to_be_striped(const Payload& payload) const noexcept {
  return lanes_ && payload.count == 1 && payload.bytes >= kStripeBytes && !payload.packed;
}

Status TcpChannel::put_by_lanes(PutWork& work, const Head& unsummed, Payload& payload) noexcept {
  Lanes& lanes = *lanes_;
  if (lanes.held.size() + main_rail().out.waiting() >= kMostWaiting ||
      lanes.puts.begun() - lanes.puts.ended() >= kMostUntaken)
    return full();
  const bool is_packed = static_cast<bool>(payload.packed);
  const bool is_lent = !is_packed && payload.bytes > Record::kSmall;
  std::uint64_t number = 0;
  try {
    if (is_to_be_striped(payload)) {
      number = add_striped(unsummed, payload.all().front());
    } else {
      if (is_lent || work.delivered) number = lanes.puts.add(1);
      add_put(unsummed, payload, number);
    }
    if (!work.more) flush_main();
    feed_all();
  } catch (const std::bad_alloc&) {
    (void)give_up("no memory to remember a put that is half out");
    return broken("put");
  }
  work.source_is_free = !is_lent;
  work.copied = (is_packed ? work.bytes : 0) + (main_rail().pipe.is_sealed() ? work.bytes : 0);
  if (is_lent || work.delivered) work.posted = number;
  return {};
}

std::uint64_t TcpChannel::add_striped(const Head& put, const iovec& run) {
  Lanes& lanes = *lanes_;
  const std::size_t piece = PiecePool::piece_bytes(run.iov_len);
  const std::size_t pieces = (run.iov_len + piece - 1) / piece;
  const std::uint64_t number = lanes.puts.add(pieces + 1);
  Head head = put;
  head.kind = Kind::striped;
  head.address = pieces;
  head.key = ++lanes.stripes;
  head.bytes = 0;
  head = summed(head, {});
  const bool goes = !lanes.fenced && lanes.held.empty();
  lane_record(head).put = number;
  if (goes) lanes.last_striped = number;
  head = put;
  head.kind = Kind::piece;
  head.flags = static_cast<std::uint8_t>(lanes.stripes);
  for (std::size_t first = 0; first < run.iov_len; first += piece) {
    head.address = put.address + first;
    head.bytes = std::min(piece, run.iov_len - first);
    lanes.pool.add({head, {static_cast<std::byte*>(run.iov_base) + first, head.bytes}, number});
  }
  return number;
}

void TcpChannel::add_put(const Head& put, Payload& payload, std::uint64_t number) {
  std::span<const iovec> runs = payload.all();
  std::array<iovec, kMostRuns> some;
  Head head = put;
  std::size_t skipped = 0;  // of the first run
  std::uint64_t left = put.bytes;
  // In parts, between which goes what is urgent.
  for (const bool in_parts = left >= 2 * kPart; in_parts && left > kPart; left -= kPart) {
    head.kind = Kind::part;
    head.bytes = kPart;
    const std::size_t count = take_runs(runs, skipped, kPart, some);
    const auto parts = std::span(some).first(count);
    head = summed(head, parts);
    lane_record(head).runs.assign(parts.begin(), parts.end());
    head.address += kPart;
  }
  head.kind = put.kind;
  head.bytes = left;
  head.flags = number != 0 ? kTell : 0;
  const std::size_t count = take_runs(runs, skipped, left, some);
  const auto parts = std::span(some).first(count);
  head = summed(head, parts);
  Record& record = lane_record(head);
  record.put = number;
  record.fill(parts, std::move(payload.packed));
}

/// A record that goes by the main rail, or waits until it may.
Record& TcpChannel::lane_record(const Head& head) {
  Lanes& lanes = *lanes_;
  SendQueue& out = main_rail().out;
  if (is_urgent(head.kind))
    return lanes.fenced ? lanes.held_urgent.add(head) : out.add_urgent(head);
  const bool waits =
      lanes.fenced || !lanes.held.empty() || (head.kind != Kind::striped && lanes.is_striping());
  return waits ? lanes.held.add(head) : out.add(head);
}

void TcpChannel::transmit_by_lanes(const Head& unsummed, std::span<const std::byte> payload,
                                   bool may_overtake) noexcept {
  Lanes& lanes = *lanes_;
  const iovec run{const_cast<std::byte*>(payload.data()), payload.size()};
  const Head head = summed(unsummed, std::span(&run, payload.empty() ? 0U : 1U));
  try {
    const bool overtakes = may_overtake && !lanes.fenced && !holds_messages(lanes.held);
    Record& record = overtakes ? main_rail().out.add_urgent(head) : lane_record(head);
    record.copy.assign(payload.begin(), payload.end());
  } catch (const std::bad_alloc&) {
    return (void)give_up("no memory to remember what is to be sent to it");
  }
  flush_main();
}

void TcpChannel::send_by(Rail& rail, const Head& head) noexcept {
  try {
    rail.out.add_urgent(summed(head, {}));
  } catch (const std::bad_alloc&) {
    return (void)give_up("no memory to remember what is to be sent to it");
  }
  if (!rail.out.lacks_room()) rail.out.flush(kTurn);
  after_sending(rail);
}

Record* TcpChannel::find_waiting(Kind kind, std::uint64_t address, std::uint32_t key) noexcept {
  if (!lanes_ || !lanes_->fenced) return main_rail().out.find_urgent(kind, address, key);
  for (std::size_t i = 0; i < lanes_->held_urgent.size(); ++i) {
    Record& record = lanes_->held_urgent.at(i);
    if (record.head.kind == kind && record.head.address == address && record.head.key == key)
      return &record;
  }
  return nullptr;
}

void TcpChannel::flush_main() noexcept {
  Rail& rail = main_rail();
  if (rail.link.load() != Link::up) return;
  if (!rail.out.lacks_room()) rail.out.flush(kTurn);
  after_sending(rail);
}

void TcpChannel::feed(Rail& rail) {
  PiecePool& pool = lanes_->pool;
  if (pool.is_empty() || rail.link.load() != Link::up) return;
  const auto now = Clock::now();
  while (!rail.out.lacks_room() && pool.may_take(rail.index, now)) {
    const PiecePool::Piece piece = pool.take(rail.index, now);
    Record& record = rail.out.add(summed(piece.head, std::span(&piece.run, 1)));
    record.runs.assign(1, piece.run);
    record.put = piece.put;
    rail.out.flush(kTurn);
  }
  after_sending(rail);
}

void TcpChannel::feed_or_give_up(Rail& rail) noexcept {
  try {
    feed(rail);
  } catch (const std::bad_alloc&) {
    (void)give_up("no memory to remember what is to be sent to it");
  }
}

void TcpChannel::feed_all() {
  for (const auto& rail : rails_) feed(*rail);
}

void TcpChannel::release_held() {
  Lanes& lanes = *lanes_;
  if (lanes.fenced) return;
  SendQueue& out = main_rail().out;
  bool moved = !lanes.held_urgent.empty();
  for (; !lanes.held_urgent.empty(); lanes.held_urgent.pop())
    out.add_urgent(std::move(lanes.held_urgent.at(0)));
  for (; !lanes.held.empty(); lanes.held.pop()) {
    Record& next = lanes.held.at(0);
    if (next.head.kind == Kind::striped)
      lanes.last_striped = next.put;
    else if (lanes.is_striping())
      break;
    out.add(std::move(next));
    moved = true;
  }
  if (moved) flush_main();
}

/// The peer has taken that many records of the rail.
bool TcpChannel::on_taken(Rail& rail, std::uint64_t count) {
  const std::lock_guard lock(sending_.mutex);
  if (!is_open()) return true;
  if (!drop_taken(rail, count)) return give_up("it has taken more than was sent to it");
  if (lanes_->fenced == rail.index && rail.link.load() == Link::up && !rail.out.holds_ordered()) {
    lanes_->fenced.reset();
    main_ = *first_up();
  }
  release_held();
  feed_all();
  return true;
}

bool TcpChannel::drop_taken(Rail& rail, std::uint64_t count) {
  const auto now = Clock::now();
  return rail.out.taken(count, [&](const Record& record) {
    if (record.head.kind == Kind::piece) lanes_->pool.arrived(rail.index, record.head.bytes, now);
    if (record.put != 0) lanes_->puts.taken(record.put);
  });
}

/// Whether a put over several rails has ended.
std::optional<Status> TcpChannel::outcome_by_lanes(std::uint64_t number) noexcept {
  const auto has_ended = [&] { return lanes_->puts.ended() >= number; };
  if (has_ended()) return Status{};
  if (has_failed()) return broken("put");
  flush();
  rank_.sockets.poll_once();
  if (has_ended()) return Status{};
  return std::nullopt;
}

bool TcpChannel::is_idle_by_lanes() noexcept {
  {
    const std::lock_guard lock(sending_.mutex);
    const bool idle = lanes_->held.empty() && lanes_->held_urgent.empty() &&
                      lanes_->pool.is_empty() &&
                      std::none_of(rails_.begin(), rails_.end(),
                                   [](const auto& r) { return r->out.holds_any(); });
    if (idle) return true;
    if (!sending_.last_said) {
      sending_.last_said = 0;
      transmit({.kind = Kind::ack_wanted, .flags = kTell}, {});
    }
  }
  flush();
  rank_.sockets.poll_once();
  return false;
}

}  // namespace weft::p2p::tcp
