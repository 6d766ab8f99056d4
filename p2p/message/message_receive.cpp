// Receiving: matches messages to receives and delivers payloads that lie in the ring.
#include <fmt/format.h>

#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/message/waiting.hpp"

namespace weft::detail {

using p2p::WaitEnd;
using Stage = MessageOperation::Stage;

Result<MessageInfo> MessageState::recv(int from, const Tag& tag, const Tensor& into,
                                       Deadline deadline) noexcept {
  // Fast path: nothing else is under way, so the source's next message either is here or has not
  // come.
  if (from >= 0 && from < local_.size && posted_.empty() && busy_.empty() && into.dense() &&
      !is_out_of_reach(into)) [[likely]] {
    IncomingRing* const ring = incoming_at(from);
    if (ring != nullptr && !ring->keeps()) [[likely]] {
      if (!ring->ready()) deadline = resolve(deadline);
      stats::WaitDetailsRoom details;
      const WaitEnd end = local_.waiter.wait(
          [ring] { return ring->ready(); }, [ring] { return ring->peer().gone(); }, deadline,
          [&] { return about_receive(details.make(), from, tag); });
      if (end == WaitEnd::ready) [[likely]] {
        Arrived* const arrived = ring->take();
        if (arrived != nullptr && tag.takes(arrived->tag)) [[likely]] {
          if (is_at_hand(*arrived, into)) [[likely]]
            return deliver(*ring, *arrived, into);
          return recv_offered(*ring, *arrived, into, deadline);
        }
        if (arrived != nullptr) ring->keep(*arrived, ++kept_order_);
      } else if (end == WaitEnd::timeout) {
        deadline = Deadline::at({});
      }
    }
  }
  return recv_in_turn(from, tag, into, deadline);
}

Result<MessageInfo> MessageState::recv_in_turn(int from, const Tag& tag, const Tensor& into,
                                               Deadline deadline) noexcept {
  if (into.memory().is_gpu()) return recv_to_gpu(from, tag, into, resolve(deadline));
  MessageRequest request = start_receive(from, tag, into);
  Result<MessageInfo> result = wait(request, deadline);
  if (request.operation_ == nullptr) return result;
  // The deadline has passed. Poll once more: a message may have come just now.
  progress();
  MessageOperation& operation = *request.operation_;
  if (operation.stage == Stage::ended) return wait(request, Deadline::at({}));
  if (operation.stage == Stage::reading)
    put_back(operation);
  else
    posted_.remove(operation);
  end(operation);
  give_back(*std::exchange(request.operation_, nullptr));
  return result;
}

Result<MessageInfo> MessageState::recv_offered(IncomingRing& ring, Arrived& arrived,
                                               const Tensor& into, Deadline deadline) noexcept {
  arrived.order = ++kept_order_;
  try {
    MessageOperation& operation = take_operation(ring.peer().rank, Tag(arrived.tag), into);
    accept(ring, arrived, operation);
    const auto ended = [&operation] { return operation.stage == Stage::ended; };
    if (ended() || wait_until(ended, deadline, operation) == WaitEnd::ready)
      return finish(operation);
    Status status = late(operation);
    put_back(operation);
    end(operation);
    give_back(operation);
    return status;
  } catch (const std::bad_alloc&) {
    ring.keep(arrived, arrived.order);
    return failure(Code::exhausted, "recv", ring.peer().rank, "no memory for the receive", "");
  }
}

MessageRequest MessageState::irecv(int from, const Tag& tag, const Tensor& into) noexcept {
  return watched(start_receive(from, tag, into));
}

MessageRequest MessageState::start_receive(int from, const Tag& tag, const Tensor& into) noexcept {
  if (into.memory().is_gpu()) [[unlikely]]
    return irecv_to_gpu(from, tag, into);
  MessageRequest request;
  request.status_ = check("recv", from == kAnySource ? local_.rank : from, into);
  if (!request.status_.ok()) return request;
  const Found found = find_kept(from, tag);
  if (found.arrived != nullptr && is_at_hand(*found.arrived, into)) {
    found.ring->drop(*found.arrived);
    Result<MessageInfo> result = deliver(*found.ring, *found.arrived, into);
    request.status_ = result.status();
    if (result.ok()) request.info_ = *result;
    return request;
  }
  post(request, found, from, tag, into, {});
  return request;
}

void MessageState::post(MessageRequest& request, const Found& found, int from, const Tag& tag,
                        const Tensor& into, const Tensor& on_gpu) noexcept {
  try {
    MessageOperation& operation = take_operation(from, tag, into);
    operation.on_gpu = on_gpu;
    follow(request, operation);
    if (found.arrived != nullptr) {
      found.ring->drop(*found.arrived);
      return accept(*found.ring, *found.arrived, operation);
    }
    operation.stage = Stage::posted;
    posted_.add(operation);
  } catch (const std::bad_alloc&) {
    request.status_ = failure(Code::exhausted, "recv", from, "no memory for the receive", "");
    return;
  }
  // It checks for gone ranks itself: notice_gone() reports each only once.
  if (mesh_.gone_count() != 0 ||
      (from >= 0 && incoming_at(from) != nullptr && incoming_at(from)->spoilt())) [[unlikely]] {
    const Status why = no_more_from(from);
    if (!why.ok() && request.operation_->stage == Stage::posted) fail_posted(from, why);
  }
}

bool MessageState::take(IncomingRing& ring) noexcept {
  Arrived* const arrived = ring.take();
  const int from = ring.peer().rank;
  if (arrived == nullptr) [[unlikely]] {
    fail_posted(from, no_more_from(from));
    return false;
  }
  MessageOperation* const receive = posted_.empty() ? nullptr : posted_.find(from, arrived->tag);
  if (receive == nullptr) {
    ring.keep(*arrived, ++kept_order_);
    return true;
  }
  posted_.remove(*receive);
  arrived->order = ++kept_order_;
  accept(ring, *arrived, *receive);
  return true;
}

MessageState::Found MessageState::find_kept(int from, const Tag& tag) const noexcept {
  if (from != kAnySource) {
    IncomingRing* const ring = incoming_at(from);
    return {ring, ring == nullptr ? nullptr : ring->find(tag)};
  }
  Found first;
  for (IncomingRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr;
       ring = ring->next) {
    Arrived* const arrived = ring->find(tag);
    if (arrived != nullptr && (first.arrived == nullptr || arrived->order < first.arrived->order))
      first = {ring, arrived};
  }
  return first;
}

Result<MessageInfo> MessageState::deliver(IncomingRing& ring, Arrived& arrived,
                                          const Tensor& into) noexcept {
  const MessageInfo info{ring.peer().rank, arrived.tag, arrived.bytes, arrived.dtype};
  if (!fits(arrived, into)) [[unlikely]]
    return drop_unfit(ring, arrived, into);
  ring.copy_out(arrived, into.data());
  return info;
}

Result<MessageInfo> MessageState::drop_unfit(IncomingRing& ring, Arrived& arrived,
                                             const Tensor& into) noexcept {
  const int from = ring.peer().rank;
  const bool is_large = arrived.bytes > into.bytes();
  Status status =
      failure(Code::mismatch, "recv", from, text_or_empty([&] {
                return fmt::format(
                    "{}'s message of {} elements, {} bytes (tag {}), {} the tensor "
                    "to receive it, {} of {} bytes; the message is dropped",
                    source_text(from), name(arrived.dtype), arrived.bytes, arrived.tag,
                    is_large ? "is larger than" : "does not fit", into.text(), into.bytes());
              }),
              is_large ? "probe() returns the size of the next message"
                       : "receive into a tensor of that element type, or of u8 for the bytes; "
                         "probe() returns the type");
  if (arrived.data == nullptr) ring.acknowledge(arrived);
  ring.release(arrived);
  return status;
}

Status MessageState::no_more_from(int from) noexcept {
  if (from != kAnySource) {
    IncomingRing* const ring = incoming_at(from);
    Status peer_status = gone("recv", from);
    if (ring != nullptr)
      while (ring->ready() && !ring->spoilt() && take(*ring)) {
      }
    if (peer_status.ok() && ring != nullptr && ring->spoilt())
      return failure(Code::system, "recv", from,
                     formatted("{} sent a malformed message", source_text(from)),
                     "this is a defect of weft: please report it with WEFT_LOG=debug");
    return peer_status;
  }
  Status last;
  for (int rank = 0; rank < local_.size; ++rank) {
    if (rank == local_.rank) continue;
    last = no_more_from(rank);
    if (last.ok()) return last;
  }
  // A message from this rank to itself may still be on its way.
  (void)no_more_from(local_.rank);
  const OutgoingRing* const to_self = outgoing_at(local_.rank);
  const IncomingRing* const from_self = incoming_at(local_.rank);
  if (to_self != nullptr &&
      (to_self->is_busy() || (from_self != nullptr && to_self->sent() != from_self->taken())))
    return {};
  const Status failed = mesh_.first_failure();
  if (failed.ok()) return last;
  return altered(failed, [&](ErrorDetail& detail) { detail.operation = "recv"; });
}

void MessageState::fail_posted(int from, const Status& why) noexcept {
  while (MessageOperation* const receive = posted_.list(from).first()) {
    posted_.remove(*receive);
    receive->status = why;
    end(*receive);
  }
}

MessageInfo MessageState::info_of(const Found& found) noexcept {
  const Arrived& arrived = *found.arrived;
  return {found.ring->peer().rank, arrived.tag, arrived.bytes, arrived.dtype};
}

Result<MessageInfo> MessageState::probe(int from, const Tag& tag, Deadline deadline) noexcept {
  if (Status status = check("probe", from == kAnySource ? local_.rank : from); !status.ok())
    return status;
  Found found;
  Status none;
  const auto ready = [&] {
    found = find_kept(from, tag);
    if (found.arrived != nullptr) return true;
    if (mesh_.gone_count() != 0) none = no_more_from(from);
    if (!none.ok()) found = find_kept(from, tag);
    return !none.ok();
  };
  const WaitEnd end = wait_until(ready, deadline, Probed{from, tag});
  if (found.arrived != nullptr) return info_of(found);
  if (end == WaitEnd::ready)
    return altered(none, [](ErrorDetail& detail) { detail.operation = "probe"; });
  return failure(Code::timeout, "probe", from,
                 formatted("nothing came from {} ({}){}", source_text(from),
                           text_or_empty([&] { return text_of(tag); }), suspicion(from)),
                 "does it send with this tag? a longer deadline: WEFT_TIMEOUT");
}

std::optional<MessageInfo> MessageState::iprobe(int from, const Tag& tag) noexcept {
  if (!check("probe", from == kAnySource ? local_.rank : from).ok()) return std::nullopt;
  local_.waiter.poll_and_progress();
  progress();
  const Found found = find_kept(from, tag);
  if (found.arrived == nullptr) return std::nullopt;
  return info_of(found);
}

void MessageState::on_message(p2p::Peer& peer, std::span<const std::byte> bytes) {
  using namespace p2p::message;
  p2p::MessageType type{};
  std::memcpy(&type, bytes.data(), sizeof type);
  if (type == p2p::MessageType::ring_wanted) return on_ring_wanted(peer, bytes);
  p2p::message::OutgoingRing* const ring = outgoing_at(peer.rank);
  if (ring == nullptr) return;
  if (const auto granted = p2p::parse<RingGranted>(bytes)) ring->granted(*granted);
  if (const auto refused = p2p::parse<RingRefused>(bytes)) ring->refused(*refused);
  local_.ring();
}

void MessageState::on_ring_wanted(p2p::Peer& peer, std::span<const std::byte> bytes) {
  using namespace p2p::message;
  const auto wanted = p2p::parse<RingWanted>(bytes);
  if (!wanted || incoming_at(peer.rank) != nullptr) return;  // protocol violation
  try {
    auto made =
        std::make_unique<p2p::message::IncomingRing>(local_, peer, Geometry::for_job(local_.size));
    if (!mesh_.share(peer, made->chunk()))
      throw Error(ErrorDetail{
          .code = Code::exhausted,
          .message = fmt::format("rank {} can't let this rank reach its memory", local_.rank)});
    RingGranted granted;
    made->grant(*wanted, granted);
    p2p::message::IncomingRing* const ring = made.get();
    {
      const std::lock_guard lock(report_mutex_);
      incoming_.push_back(std::move(made));
    }
    ring->next = rings_.load(std::memory_order_relaxed);
    rings_.store(ring, std::memory_order_release);
    incoming_at_[static_cast<std::size_t>(peer.rank)].store(ring, std::memory_order_release);
    mesh_.send(peer, granted);
    local_.ring();
  } catch (const Error& error) {
    RingRefused refused;
    refused.code = static_cast<std::uint32_t>(error.code());
    refused.text.set(error.detail().message);
    mesh_.send(peer, refused);
  }
}

}  // namespace weft::detail
