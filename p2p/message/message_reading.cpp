// Receives that read an offered payload from the sender's memory. A read is started, polled
// whenever this rank progresses its messages, and never waited for here.
#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "base/fail.hpp"
#include "p2p/message/waiting.hpp"

namespace weft::detail {

using Stage = MessageOperation::Stage;

namespace {

/// A peer that ends its path in order, or dies, is known to be gone by then.
constexpr std::chrono::seconds kUntilKnown{1};

void clear(p2p::Reading* reading) noexcept {
  if (reading == nullptr) return;
  reading->landing = {};
  reading->tensor = {};
}

}  // namespace

void MessageState::accept(IncomingRing& ring, Arrived& arrived,
                          MessageOperation& receive) noexcept {
  receive.info = {ring.peer().rank, arrived.tag, arrived.bytes, arrived.dtype};
  if (is_at_hand(arrived, receive.tensor)) {
    const Result<MessageInfo> result = deliver(ring, arrived, receive.tensor);
    if (!result.ok()) receive.status = result.status();
    return end(receive);
  }
  receive.ring = &ring;
  receive.arrived = &arrived;
  receive.started = false;
  receive.broken = {};
  receive.stage = Stage::reading;
  readings_.add(receive);
  read(receive);
}

void MessageState::go_on_reading() noexcept {
  awaits_news_ = false;
  for (MessageOperation* receive = readings_.first(); receive != nullptr;) {
    MessageOperation* const next = receive->next;
    read(*receive);
    receive = next;
  }
}

void MessageState::read(MessageOperation& receive) noexcept {
  if (!receive.started) {
    if (std::optional<Status> failed = start_reading(receive)) {
      if (failed->code() != Code::exhausted) return end_reading(receive, std::move(*failed));
      // Out of memory on this rank: leave the message to another receive and fail this one.
      put_back(receive);
      receive.status = std::move(*failed);
      return end(receive);
    }
    if (!receive.started) return;
  }
  if (!receive.broken.ok()) return end_broken(receive);
  std::optional<Status> outcome = receive.reading->get.poll();
  if (!outcome) return;
  const std::size_t bytes = receive.arrived->bytes;
  if (!outcome->ok()) {
    receive.broken = std::move(*outcome);
    receive.known_by = Deadline::after(kUntilKnown);
    return end_broken(receive);
  }
  p2p::EdgeCounters& counters = receive.ring->counters();
  if (receive.reading->landing) {
    std::memcpy(receive.tensor.data(), receive.reading->landing.data(), bytes);
    counters.bytes_copied.add(bytes);
  }
  counters.transfers.add(1);
  counters.bytes_moved.add(bytes);
  counters.work_requests.add(1);
  local_.recorder.data(stats::Event::received, receive.ring->peer().rank, receive.ring->number(),
                       receive.arrived->sequence, bytes);
  end_reading(receive, {});
}

/// The path often tells that it has ended before the mesh knows of the peer's last word. Nothing
/// waits for that here: the receive stays as it is until then.
void MessageState::end_broken(MessageOperation& receive) noexcept {
  const p2p::Peer& peer = receive.ring->peer();
  const Code code = receive.broken.code();
  const bool is_of_the_path =
      code == Code::path_failed || code == Code::peer_failed || code == Code::peer_left;
  if (is_of_the_path && !peer.gone() && !receive.known_by.passed()) {
    awaits_news_ = true;
    return;
  }
  end_reading(receive, mesh_.disconnected(peer.rank, receive.broken, Deadline::at({})));
}

/// Returns the error if the read failed; nullopt if the read has started or the peer's chunk is not
/// known here yet.
std::optional<Status> MessageState::start_reading(MessageOperation& receive) noexcept {
  const Arrived& arrived = *receive.arrived;
  const auto from = find_offered(*receive.ring, arrived);
  if (!from) return std::nullopt;
  if (!from->ok()) {
    return altered(from->status(), [&](ErrorDetail& why) { why.operation = "recv"; });
  }
  p2p::Channel& channel = *receive.ring->peer().channel;
  try {
    if (!receive.reading)
      receive.reading = std::make_unique<p2p::Reading>();  // put_back() took the last
    p2p::Reading& reading = *receive.reading;
    // Read into the arena first if no fabric can reach the tensor's memory.
    if (!channel.capabilities().copies && !local_.reachable(receive.tensor.data(), arrived.bytes))
      reading.landing = p2p::OwnedBlock(local_.data, arrived.bytes);
    std::byte* const to = reading.landing ? reading.landing.data() : receive.tensor.data();
    reading.pieces.assign(1, {to, **from, arrived.bytes});
    reading.get.pieces = reading.pieces;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return failure(Code::exhausted, "recv", receive.ring->peer().rank,
                   "no memory to read the message", "");
  }
  receive.started = true;
  channel.get(receive.reading->get);
  return std::nullopt;
}

/// nullopt while the sender's chunk is not known here: the sender announced the chunk before the
/// offer, so the announcement is on its way.
std::optional<Result<p2p::RemoteMemory>> MessageState::find_offered(
    IncomingRing& ring, const Arrived& arrived) noexcept {
  p2p::Peer& peer = ring.peer();
  const p2p::MemoryRef ref{arrived.offer.chunk, arrived.offer.offset, arrived.bytes};
  // The adopted memory of a process that is gone is gone too, and its pid may belong to another
  // process now.
  if (p2p::sort_of_chunk(ref.chunk) == p2p::ArenaSort::adopted && peer.gone())
    return gone("recv", peer.rank);
  const bool was_gone = peer.gone();  // before resolve(): all announced chunks are known then
  Result<p2p::RemoteMemory> found = peer.channel->resolve(ref);
  if (found.ok() || found.code() != Code::unreachable) return found;
  if (was_gone) return gone("recv", peer.rank);
  awaits_news_ = true;
  local_.progress.help();
  return std::nullopt;
}

void MessageState::end_reading(MessageOperation& receive, Status status) noexcept {
  readings_.remove(receive);
  clear(receive.reading.get());
  receive.ring->acknowledge(*receive.arrived);
  receive.ring->release(*receive.arrived);
  receive.status = std::move(status);
  end(receive);
}

void MessageState::put_back(MessageOperation& receive) noexcept {
  readings_.remove(receive);
  if (readings_.empty()) awaits_news_ = false;
  if (receive.started) {
    receive.reading->tensor = receive.tensor;
    if (!receive.reading->get.cancel()) local_.strays.keep(std::move(receive.reading), 0);
  }
  clear(receive.reading.get());
  receive.ring->keep(*receive.arrived, receive.arrived->order);
}

}  // namespace weft::detail
