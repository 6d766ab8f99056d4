// The sending side: tensors from where they lie, words, messages, requests for memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/ending.hpp"
#include "p2p/transport/tcp/checksum.hpp"
#include "p2p/transport/tcp/payload.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {

Status TcpChannel::full() const noexcept {
  return refuse(Code::exhausted, [&] {
    return ErrorDetail{.operation = "put",
                       .message = fmt::format("the queue to rank {} is full", peer_),
                       .peer = peer_};
  });
}

Status TcpChannel::collect(PutWork& work, Payload& payload) noexcept {
  if (work.parts.empty()) {
    payload.add(work.source, work.bytes);
    return {};
  }
  std::size_t runs = 0;
  for (const Tensor& part : work.parts)
    for_each_run(part, [&](const std::byte*, std::size_t) { ++runs; });
  if (runs > kMostRuns) {
    // A copy for nothing is worse than a look that may be too early.
    const std::lock_guard lock(sending_.mutex);
    if (main_rail().out.waiting() >= kMostWaiting) return full();
  } else {
    for (const Tensor& part : work.parts)
      for_each_run(part, [&](const std::byte* data, std::size_t size) { payload.add(data, size); });
    return {};
  }
  try {
    payload.packed = OwnedBlock(rank_.local.staging, work.bytes);
  } catch (...) {
    return caught_status();
  }
  std::byte* to = payload.packed.data();
  for (const Tensor& part : work.parts)
    for_each_run(part, [&to](const std::byte* from, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      to += bytes;
    });
  payload.add(payload.packed.data(), work.bytes);
  return {};
}

Status TcpChannel::put(PutWork& work) noexcept {
  if (!is_open()) return broken("put");
  Payload payload;
  if (Status status = collect(work, payload); !status.ok()) return status;
  Head head{.kind = Kind::put,
            .index = work.notification_id,
            .bytes = payload.bytes,
            .address = work.payload.address,
            .key = work.payload.key,
            .sequence = work.sequence};
  const bool is_packed = static_cast<bool>(payload.packed);
  const bool is_small = payload.bytes <= Record::kSmall;
  work.requests = 1;
  const std::lock_guard lock(sending_.mutex);
  if (has_failed()) return broken("put");
  if (lanes_) return put_by_lanes(work, head, payload);
  Rail& rail = main_rail();
  const Status status = send_put(rail, head, payload.all(), std::move(payload.packed), !work.more);
  if (!status.ok()) return status;
  const std::uint64_t number = rail.out.begun();
  work.source_is_free = is_small || is_packed || rail.out.sent() >= number;
  work.copied = (is_packed ? work.bytes : 0) + (rail.pipe.is_sealed() ? work.bytes : 0);
  if (work.delivered)
    work.posted = number | kDelivered;
  else if (!work.source_is_free)
    work.posted = number;
  return {};
}

std::size_t TcpChannel::take_runs(std::span<const iovec>& runs, std::size_t& skipped,
                                  std::uint64_t bytes, std::span<iovec> some) noexcept {
  std::size_t count = 0;
  while (bytes > 0) {
    const iovec& run = runs.front();
    const std::size_t taken = std::min<std::uint64_t>(bytes, run.iov_len - skipped);
    some[count++] = {static_cast<std::byte*>(run.iov_base) + skipped, taken};
    bytes -= taken;
    skipped += taken;
    if (skipped < run.iov_len) continue;
    runs = runs.subspan(1);
    skipped = 0;
  }
  return count;
}

Status TcpChannel::send_put(Rail& rail, const Head& head, std::span<const iovec> runs,
                            OwnedBlock packed, bool at_once) {
  if (rail.out.waiting() >= kMostWaiting) return full();
  if (head.bytes < 2 * kPart)
    return send_record(rail, head, runs, std::move(packed), true, at_once);
  // In parts, between which goes what is urgent: also what another thread sends meanwhile, which
  // could not while all of them went out here.
  std::array<iovec, kMostRuns> some;
  std::size_t parts_at_once = kPartsAtOnce;
  Head part = head;
  part.kind = Kind::part;
  part.flags = 0;
  part.bytes = kPart;
  std::uint64_t left = head.bytes;
  std::size_t skipped = 0;  // of the first run
  for (; left > kPart; left -= kPart) {
    const std::size_t count = take_runs(runs, skipped, kPart, some);
    if (Status status = send_record(rail, part, std::span(some).first(count), {},
                                    left == head.bytes, parts_at_once > 0);
        !status.ok())
      return status;
    part.address += kPart;
    if (parts_at_once > 0) --parts_at_once;
  }
  Head last = head;
  last.bytes = left;
  last.address = part.address;
  const std::size_t count = take_runs(runs, skipped, left, some);
  return send_record(rail, last, std::span(some).first(count), std::move(packed), false,
                     parts_at_once > 0);
}

/// `may_be_full`: nothing of its put is out yet, so it may come again. Not `at_once`: it only joins
/// what waits.
Status TcpChannel::send_record(Rail& rail, const Head& unsummed, std::span<const iovec> runs,
                               OwnedBlock packed, bool may_be_full, bool at_once) {
  SendQueue& out = rail.out;
  const Head head = summed(unsummed, runs);
  const bool takes_along = at_once && !out.is_empty() && !out.lacks_room();
  std::size_t done = 0;
  if (at_once && out.is_empty()) done = out.send_now(head, runs);
  if (done != sizeof head + head.bytes) {
    try {
      Record& record = out.add(head);
      record.done = done;
      record.fill(runs, std::move(packed));
    } catch (const std::bad_alloc&) {
      if (done == 0 && may_be_full) return full();
      (void)give_up("no memory to remember a put that is half out");
      return broken("put");
    }
    // Deferred records go with it; or there are runs beyond those of one system call.
    if (takes_along || (runs.size() > 1 && done != 0)) out.flush(kTurn);
  }
  after_sending(rail);
  return {};
}

Head TcpChannel::summed(Head head, std::span<const iovec> parts) const noexcept {
  if (checksums_) {
    head.checksum = checksum(head, parts);
    head.head_sum = head_sum(head);
  }
  return head;
}

/// Whether it may go past the tensors that wait, and passes no message thereby.
static bool may_go_first(const SendQueue& out, Kind kind,
                         std::span<const std::byte> payload) noexcept {
  if (!is_of_messages(kind) || out.holds_messages()) return false;
  return kind == Kind::chunk || (kind == Kind::message && may_overtake_puts(payload));
}

void TcpChannel::transmit(const Head& unsummed, std::span<const std::byte> payload) noexcept {
  Rail& rail = main_rail();
  SendQueue& out = rail.out;
  if (lanes_)
    return transmit_by_lanes(unsummed, payload, may_go_first(out, unsummed.kind, payload));
  const iovec run{const_cast<std::byte*>(payload.data()), payload.size()};
  const std::span parts(&run, payload.empty() ? 0U : 1U);
  const Head head = summed(unsummed, parts);
  const bool takes_along = !out.is_empty() && !out.lacks_room();
  std::size_t done = 0;
  if (out.is_empty()) done = out.send_now(head, parts);
  if (done != sizeof head + payload.size()) {
    try {
      const bool overtakes = is_urgent(head.kind) || may_go_first(out, head.kind, payload);
      Record& record = overtakes ? out.add_urgent(head) : out.add(head);
      record.done = done;
      record.copy.assign(payload.begin(), payload.end());
    } catch (const std::bad_alloc&) {
      (void)give_up("no memory to remember what is to be sent to it");
      return;
    }
    if (takes_along) out.flush(kTurn);
  }
  after_sending(rail);
}

void TcpChannel::post(Head head, std::span<const std::byte> payload) {
  head.bytes = payload.size();
  bool unopened = false;
  {
    const std::lock_guard lock(sending_.mutex);
    unopened = state_.load() == State::unopened;
    if (unopened)
      sending_.unsent.emplace_back(head, std::vector(payload.begin(), payload.end()));
    else if (!has_failed())
      transmit(head, payload);
  }
  if (unopened) rank_.first_use.request(peer_);
}

void TcpChannel::send(std::span<const std::byte> message) {
  counters().control_messages.add(1);
  if (is_close(message) && rank_.first_use.send_at_once(peer_, message)) return;
  post({.kind = Kind::message}, message);
}

void TcpChannel::put_word(RemoteMemory word, std::uint64_t value, Notify notify) noexcept {
  const std::lock_guard lock(sending_.mutex);
  if (!is_open()) return;
  // A newer value takes the place of one that still waits, so that words take bounded memory.
  SendQueue& out = main_rail().out;
  if (Record* record = find_waiting(Kind::word, word.address, word.key)) {
    record->head.sequence = value;
    record->head = summed(record->head, {});
    return;
  }
  const Head head{.kind = Kind::word, .address = word.address, .key = word.key, .sequence = value};
  if (notify != Notify::deferred || !rank_.sockets.are_polled()) return transmit(head, {});
  // A packet of its own costs more than all else about a small put.
  try {
    if (lanes_)
      lane_record(summed(head, {}));
    else
      out.add_urgent(summed(head, {}));
  } catch (const std::bad_alloc&) {
    return (void)give_up("no memory to remember a word that it is to get");
  }
  after_sending(main_rail());
}

void TcpChannel::notify() noexcept {
  const std::lock_guard lock(sending_.mutex);
  if (!is_open()) return;
  if (find_waiting(Kind::bell, 0, 0) != nullptr) return;
  transmit({.kind = Kind::bell}, {});
}

void TcpChannel::after_sending(Rail& rail) noexcept {
  const bool waits = !rail.out.is_empty();
  if (rail.waits.load(std::memory_order_relaxed) != waits) {
    rail.waits.store(waits, std::memory_order_relaxed);
    rank_.sockets.want_room(rail.pipe.in(), waits);
  }
}

bool TcpChannel::flush_rail(Rail& rail) noexcept {
  bool moved = false;
  {
    const std::unique_lock lock(sending_.mutex, std::try_to_lock);
    if (!lock.owns_lock() || rail.out.is_empty() || has_failed()) return false;
    if (rail.out.lacks_room() && !rail.pipe.has_room()) return false;
    // The waiting records are those of the connection before.
    if (lanes_ && rail.link.load() != Link::up) return false;
    const std::uint64_t before = rail.out.sent();
    moved = rail.out.flush(kTurn);
    after_sending(rail);
    if (lanes_) feed_or_give_up(rail);
    if (rail.out.sent() == before) return moved;
  }
  rank_.local.ring();  // who waits for a source
  return moved;
}

void TcpChannel::flush() noexcept {
  for (const auto& rail : rails_)
    if (rail->waits.load(std::memory_order_relaxed)) flush_rail(*rail);
}

}  // namespace weft::p2p::tcp
