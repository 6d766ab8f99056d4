// What goes out: tensors from where they lie, words, messages, requests for memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "p2p/mesh/ending.hpp"
#include "p2p/tcp/checksum.hpp"
#include "p2p/tcp/payload.hpp"
#include "p2p/tcp/tcp_channel.hpp"

namespace weft::p2p::tcp {

Status TcpChannel::full() const noexcept {
  return Status(ErrorDetail{.code = Code::exhausted,
                            .operation = "put",
                            .message = fmt::format("the queue to rank {} is full", peer_),
                            .peer = peer_});
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
    const std::lock_guard lock(send_mutex_);
    if (main_rail().out.waiting() >= kMostWaiting) return full();
  } else {
    for (const Tensor& part : work.parts)
      for_each_run(part, [&](const std::byte* data, std::size_t size) { payload.add(data, size); });
    return {};
  }
  try {
    payload.packed = OwnedBlock(rank_.local.hidden, work.bytes);
  } catch (const Error& error) {
    return error.status();
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
            .index = work.signal,
            .bytes = payload.bytes,
            .address = work.payload.address,
            .key = work.payload.key,
            .sequence = work.sequence};
  const bool is_packed = static_cast<bool>(payload.packed);
  const bool is_small = payload.bytes <= Record::kSmall;
  work.requests = 1;
  const std::lock_guard lock(send_mutex_);
  if (has_failed()) return broken("put");
  if (is_to_be_striped(payload)) return put_in_stripes(work, head, payload.all());
  Rail& rail = main_rail();
  const Status status =
      send_put(rail, summed(head, payload.all()), payload.all(), std::move(payload.packed));
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

Status TcpChannel::send_put(Rail& rail, const Head& head, std::span<const iovec> runs,
                            OwnedBlock packed) {
  Outgoing& out = rail.out;
  if (out.waiting() >= kMostWaiting) return full();
  const bool takes_along = !out.is_empty() && !out.lacks_room();
  std::size_t done = 0;
  if (out.is_empty()) done = out.send_now(head, runs);
  if (done != sizeof head + head.bytes) {
    try {
      Record& record = out.add(head);
      record.done = done;
      if (head.bytes <= Record::kSmall) {
        std::byte* to = record.small.data();
        for (const iovec& run : runs) {
          std::memcpy(to, run.iov_base, run.iov_len);
          to += run.iov_len;
        }
        record.is_small = true;
      } else {
        record.runs.assign(runs.begin(), runs.end());
        record.packed = std::move(packed);
      }
    } catch (const std::bad_alloc&) {
      if (done == 0) return full();
      (void)give_up("no memory to remember a put that is half out");
      return broken("put");
    }
    // What has been put off goes with it; or there are runs beyond those of one system call.
    if (takes_along || (runs.size() > 1 && done != 0)) out.flush(kTurn);
  }
  after_sending(rail);
  return {};
}

Head TcpChannel::summed(Head head, std::span<const iovec> parts) const noexcept {
  if (checksums_) head.checksum = checksum(head, parts);
  return head;
}

void TcpChannel::transmit(const Head& unsummed, std::span<const std::byte> payload) {
  Rail& rail = main_rail();
  Outgoing& out = rail.out;
  const iovec run{const_cast<std::byte*>(payload.data()), payload.size()};
  const std::span parts(&run, payload.empty() ? 0U : 1U);
  const Head head = summed(unsummed, parts);
  const bool takes_along = !out.is_empty() && !out.lacks_room();
  std::size_t done = 0;
  if (out.is_empty()) done = out.send_now(head, parts);
  if (done != sizeof head + payload.size()) {
    Record& record = out.add(head);
    record.done = done;
    record.copy.assign(payload.begin(), payload.end());
    if (takes_along) out.flush(kTurn);
  }
  after_sending(rail);
}

void TcpChannel::post(Head head, std::span<const std::byte> payload) {
  head.bytes = payload.size();
  bool unopened = false;
  {
    const std::lock_guard lock(send_mutex_);
    unopened = state_.load() == State::unopened;
    if (unopened)
      unsent_.emplace_back(head, std::vector(payload.begin(), payload.end()));
    else if (!has_failed())
      transmit(head, payload);
  }
  if (unopened) rank_.first_use(peer_);
}

void TcpChannel::send(std::span<const std::byte> message) {
  counters().control_messages.add(1);
  if (tells_of_end(message) && rank_.say_at_once(peer_, message)) return;
  post({.kind = Kind::message}, message);
}

void TcpChannel::write_word(RemoteMemory word, std::uint64_t value, Bell bell) noexcept {
  const std::lock_guard lock(send_mutex_);
  if (!is_open()) return;
  // A newer value takes the place of one that still waits, so that words take bounded memory.
  Outgoing& out = main_rail().out;
  for (std::size_t i = 0; i < out.waiting(); ++i) {
    Record* record = out.waiting_at(i);
    if (record == nullptr || record->head.kind != Kind::word ||
        record->head.address != word.address || record->head.key != word.key)
      continue;
    record->head.sequence = value;
    record->head = summed(record->head, {});
    return;
  }
  const Head head{.kind = Kind::word, .address = word.address, .key = word.key, .sequence = value};
  if (bell != Bell::may_tarry || !rank_.sockets.are_polled()) return transmit(head, {});
  // A packet of its own costs more than all else about a small put.
  out.add(summed(head, {}));
  after_sending(main_rail());
}

void TcpChannel::notify() noexcept {
  const std::lock_guard lock(send_mutex_);
  if (!is_open()) return;
  Outgoing& out = main_rail().out;
  for (std::size_t i = 0; i < out.waiting(); ++i)
    if (const Record* record = out.waiting_at(i);
        record != nullptr && record->head.kind == Kind::bell && i + 1 == out.waiting())
      return;
  transmit({.kind = Kind::bell}, {});
}

Status TcpChannel::get(std::span<const GetWork> pieces) noexcept {
  if (!is_open()) return broken("get");
  PendingGet pending;
  pending.pieces = pieces;
  pending.requests = static_cast<std::uint32_t>((pieces.size() + kMostPieces - 1) / kMostPieces);
  if (pieces.empty()) return {};
  {
    const std::lock_guard lock(gets_mutex_);
    pending.number = ++next_get_;
    gets_.push_back(&pending);
  }
  std::array<GetPiece, kMostPieces> asked;
  for (std::size_t first = 0; first < pieces.size(); first += kMostPieces) {
    const std::size_t count = std::min(kMostPieces, pieces.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const GetWork& piece = pieces[first + i];
      asked[i] = {.address = piece.from.address, .bytes = piece.bytes, .key = piece.from.key};
    }
    const auto payload = std::as_bytes(std::span(asked).first(count));
    const std::lock_guard lock(send_mutex_);
    if (!is_open()) break;
    transmit({.kind = Kind::get, .index = pending.number, .bytes = payload.size()}, payload);
  }
  // As long as it takes: the peer's silence ends it.
  const auto is_over = [&] { return pending.is_over.load(std::memory_order_acquire); };
  constexpr std::chrono::seconds kAtATime{60};
  WaitEnd end = WaitEnd::timeout;
  while (end == WaitEnd::timeout)
    end = rank_.local.waiter.wait(
        is_over, [this] { return has_failed(); }, Deadline::after(kAtATime));
  {
    const std::lock_guard turn(receive_mutex_);  // nobody receives into its pieces
    const std::lock_guard lock(gets_mutex_);
    std::erase(gets_, &pending);
    for (const auto& rail : rails_) {
      const Head* head = rail->in.under_way();
      if (head == nullptr || head->kind != Kind::reply || head->index != pending.number) continue;
      for (iovec& place : rail->in.places()) place.iov_base = nullptr;
    }
  }
  if (!is_over()) return broken("get");
  if (pending.whole) return {};
  return Status(ErrorDetail{
      .code = Code::closed,
      .operation = "get",
      .message = fmt::format("rank {} has given back the memory that was to be read", peer_),
      .hint = "the owner must keep the tensor until it was used",
      .peer = peer_});
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
    const std::unique_lock lock(send_mutex_, std::try_to_lock);
    if (!lock.owns_lock() || rail.out.is_empty() || has_failed()) return false;
    if (rail.out.lacks_room() && !rail.pipe.has_room()) return false;
    const std::uint64_t before = rail.out.sent();
    moved = rail.out.flush(kTurn);
    after_sending(rail);
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
