#include "p2p/message/outgoing_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/fail.hpp"
#include "p2p/slot/attach/grant.hpp"

namespace weft::p2p::message {

OutgoingRing::OutgoingRing(LocalRank& local, Mesh& mesh, Peer& peer)
    : local_(local),
      mesh_(mesh),
      peer_(peer),
      words_(local.control, sizeof(SenderWords)),
      number_(local.stats->other_number()),
      row_(local.stats, {.name = "messages",
                         .slot = number_,
                         .role = Role::puts,
                         .fabric = peer.channel ? p2p::name(peer.channel->fabric()) : "",
                         .peer = peer.rank}),
      counters_(row_.counters()) {
  new (words_.data()) SenderWords{};
}

void OutgoingRing::ask() noexcept {
  const Block& block = words_.block();
  local_.progress.post([this, chunk = block.chunk, offset = block.offset] {
    if (mesh_.share(peer_, chunk))
      return mesh_.send(peer_, RingWanted{.words = {chunk, offset, sizeof(SenderWords)}});
    RingRefused refused;
    refused.code = static_cast<std::uint32_t>(Code::exhausted);
    refused.text.set(
        "this rank's memory can't be made accessible to the receiver; the log says why; raise "
        "ulimit -l to register more");
    this->refused(refused);
    local_.ring();
  });
}

void OutgoingRing::granted(const RingGranted& granted) noexcept {
  if (answer_.load() != Answer::none) return;
  granted_ = granted;
  answer_.store(Answer::granted, std::memory_order_release);
}

void OutgoingRing::refused(const RingRefused& refused) noexcept {
  if (answer_.load() != Answer::none) return;
  failure_ = refuse(code_of(refused.code), [&] {
    return ErrorDetail{.operation = "send",
                       .message = refused.text.get(),
                       .hint = "that rank could not provide a ring for this rank's messages",
                       .rank = local_.rank,
                       .peer = peer_.rank,
                       .host = peer_.host()};
  });
  answer_.store(Answer::refused, std::memory_order_release);
}

bool OutgoingRing::open() noexcept {
  if (answer_.load(std::memory_order_acquire) != Answer::granted || !failure_.ok()) return false;
  const Geometry geometry = granted_.geometry;
  const auto ring = peer_.channel->resolve(granted_.ring);
  if (ring.code() == Code::exhausted) {
    failure_ = altered(ring.status(), [&](ErrorDetail& why) { why.operation = "send"; });
    return false;
  }
  if (!ring.ok() || !geometry.makes_sense() || granted_.ring.bytes != geometry.bytes() ||
      granted_.ring.offset % 64 != 0 || sort_of_chunk(granted_.ring.chunk) != ArenaSort::control) {
    failure_ =
        Status(ErrorDetail{.code = Code::system,
                           .operation = "send",
                           .message = fmt::format("rank {} granted a malformed ring", peer_.rank),
                           .hint = "this is a defect of weft: please report it with WEFT_LOG=debug",
                           .rank = local_.rank,
                           .peer = peer_.rank});
    return false;
  }
  try {
    cursor_.open(geometry);
    direct_ = peer_.channel->map(*ring);
    if (direct_ == nullptr) staging_.open(local_.staging, geometry);
  } catch (const Error& error) {
    failure_ = error.status();
    return false;
  } catch (const std::bad_alloc&) {
    failure_ = Status(ErrorDetail{.code = Code::exhausted, .operation = "send"});
    return false;
  }
  ring_ = *ring;
  open_ = true;
  return true;
}

OutgoingRing::Sent OutgoingRing::send(std::uint64_t tag, const Tensor& tensor) noexcept {
  return emit(tensor.bytes() <= Cell::kPayload ? Kind::in_cell : Kind::in_long, tag, tensor,
              {tensor.data(), tensor.bytes()});
}

OutgoingRing::Sent OutgoingRing::emit(Kind kind, std::uint64_t tag, const Tensor& tensor,
                                      std::span<const std::byte> payload) noexcept {
  if (!cursor_.cell_is_free(words().credit)) return Sent::no_room;
  const bool is_long = kind == Kind::in_long;
  if (is_long && !cursor_.long_is_free(words().credit)) return Sent::no_room;
  const std::uint64_t sequence = cursor_.sent() + 1;
  const std::uint64_t started_ns = local_.recorder.start();
  const std::uint64_t size = tensor.bytes();
  const Head head{.sequence = sequence, .tag = tag, .size = Head::pack(kind, tensor.dtype(), size)};
  if (direct_ != nullptr) [[likely]] {
    Cell& cell = reinterpret_cast<Cell*>(direct_)[cursor_.cell()];
    if (is_long) {
      std::byte* const to = direct_ + cursor_.long_offset();
      std::memcpy(to, &head, sizeof head);
      std::memcpy(to + sizeof head, payload.data(), payload.size());
    } else {
      cell.head = head;
      if (payload.size() == sizeof(std::uint64_t))
        std::memcpy(cell.payload, payload.data(), sizeof(std::uint64_t));
      else if (!payload.empty())
        std::memcpy(cell.payload, payload.data(), payload.size());
    }
    cell.word.store(sequence, std::memory_order_release);
    peer_.channel->notify();
  } else if (const Sent sent = put(head, payload); sent != Sent::yes) {
    return sent;
  }
  cursor_.advance(is_long);
  counters_.transfers.add(1);
  counters_.bytes_moved.add(size);
  counters_.work_requests.add(1);
  local_.recorder.data(stats::Event::sent, peer_.rank, number_, sequence, size, started_ns);
  return Sent::yes;
}

bool OutgoingRing::has_ended(std::uint64_t& posted) noexcept {
  if (posted == 0) return true;
  const auto outcome = peer_.channel->poll_put(posted);
  if (!outcome) return false;
  posted = 0;
  if (!outcome->ok() && failure_.ok()) failure_ = *outcome;
  return true;
}

OutgoingRing::Sent OutgoingRing::put(const Head& head,
                                     std::span<const std::byte> payload) noexcept {
  const bool is_long = head.kind() == Kind::in_long;
  std::uint64_t& posted =
      is_long ? staging_.long_put(cursor_.long_buffer()) : staging_.cell_put(cursor_.cell());
  const bool ended = has_ended(posted);
  if (!failure_.ok()) return Sent::failed;
  const std::uint64_t cell = cursor_.cell() * sizeof(Cell);
  const std::uint64_t place = is_long ? cursor_.long_offset() : cell + offsetof(Cell, head);
  held_up_ = !ended;
  if (!ended) return Sent::no_room;
  std::byte* const staged = staging_.at(place);
  std::memcpy(staged, &head, sizeof head);
  if (!payload.empty()) std::memcpy(staged + sizeof head, payload.data(), payload.size());
  PutWork work;
  work.source = staged;
  work.bytes = sizeof head + payload.size();
  work.payload = at(ring_, place);
  work.sequence_word = at(ring_, cell);
  work.sequence = head.sequence;
  work.notification_id = granted_.notification_id;
  work.stream = reinterpret_cast<std::uintptr_t>(this);
  work.depth = kCopyDepth;
  const Status status = peer_.channel->put(work);
  held_up_ = status.code() == Code::exhausted;
  if (held_up_) return Sent::no_room;
  if (!status.ok()) {
    failure_ = status;
    return Sent::failed;
  }
  posted = work.posted;
  if (head.kind() != Kind::offered) counters_.bytes_copied.add(payload.size());
  return Sent::yes;
}

bool OutgoingRing::has_completed() noexcept {
  const auto ended = [this](std::uint64_t& posted) { return has_ended(posted); };
  return staging_.all_of(ended);
}

OutgoingRing::Sent OutgoingRing::send_queued(Operation& operation) noexcept {
  const Tensor& tensor = operation.tensor;
  if (tensor.bytes() <= Geometry::kLongPayload) {
    const Sent sent = send(operation.tag.value, tensor);
    // All long buffers are in use. Offer the message instead, so that messages behind it need not
    // wait.
    if (sent != Sent::no_room || tensor.bytes() <= Cell::kPayload || held_up_) return sent;
  }
  return offer(operation);
}

OutgoingRing::Sent OutgoingRing::offer(Operation& operation) noexcept {
  const std::uint32_t word = offered_.free_word();
  if (word == SenderWords::kOffers || !cursor_.cell_is_free(words().credit)) return Sent::no_room;
  MemoryRef ref;
  if (Status status = place(operation, ref); !status.ok()) {
    operation.status = std::move(status);
    return Sent::yes;  // it ended with an error
  }
  const Offer offer{.offset = ref.offset, .chunk = ref.chunk, .ack = word};
  const Sent sent = emit(Kind::offered, operation.tag.value, operation.tensor,
                         std::as_bytes(std::span(&offer, 1)));
  if (sent != Sent::yes) return sent;
  operation.stage = Operation::Stage::offered;
  operation.awaited = cursor_.sent();
  offered_.add(word, operation);
  return sent;
}

Status OutgoingRing::place(Operation& operation, MemoryRef& ref) noexcept {
  const Tensor& tensor = operation.tensor;
  if (!operation.staged) {
    std::optional<MemoryRef> found = local_.locate(tensor);
    const bool adopted = found && sort_of_chunk(found->chunk) == ArenaSort::adopted;
    if (adopted && !peer_.channel->capabilities().peer_reaches_adopted.load()) found.reset();
    if (found) {
      ref = *found;
    } else {
      try {
        operation.staged = OwnedBlock(local_.data, tensor.bytes());
      } catch (...) {
        return caught_status();
      }
      std::memcpy(operation.staged.data(), tensor.data(), tensor.bytes());
      counters_.bytes_copied.add(tensor.bytes());
    }
  }
  if (operation.staged) {
    const Block& block = operation.staged.block();
    ref = {block.chunk, block.offset, tensor.bytes()};
  }
  if (share(ref.chunk)) return {};
  return Status(ErrorDetail{.code = Code::exhausted,
                            .operation = "send",
                            .message = fmt::format("this rank can't let rank {} (host {}) reach "
                                                   "the tensor",
                                                   peer_.rank, peer_.host()),
                            .hint = "the log says why; raise ulimit -l to register more",
                            .rank = local_.rank,
                            .peer = peer_.rank,
                            .host = peer_.host()});
}

bool OutgoingRing::share(std::uint32_t chunk) noexcept {
  if (std::find(shared_.begin(), shared_.end(), chunk) != shared_.end()) return true;
  try {
    bool shared = false;
    local_.progress.run([&] { shared = mesh_.share(peer_, chunk); });
    if (shared) shared_.push_back(chunk);
    return shared;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace weft::p2p::message
