// Putting by queue pairs: the payload's work requests, and the method by which their owner is
// notified.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/transport/verbs/payload.hpp"
#include "p2p/transport/verbs/work_request_chain.hpp"

namespace weft::p2p::verbs {
namespace {

/// `exhausted` would mean that a later try may find room in the queue.
Status unregistered(const Status& why) {
  return altered(why, [&](ErrorDetail& detail) {
    detail.operation = "put";
    if (detail.code == Code::exhausted) detail.code = Code::system;
  });
}

}  // namespace

Status VerbsChannel::full() const noexcept {
  return refuse(Code::exhausted, [&] {
    return ErrorDetail{.operation = "put",
                       .message = fmt::format("the queue to rank {} is full", peer_),
                       .peer = peer_};
  });
}

std::uint32_t VerbsChannel::adopted_chunk_of(const Tensor* tensor) const noexcept {
  if (tensor == nullptr || tensor->arena() != rank_.local.adopted.get()) return 0;
  const auto place = rank_.local.adopted->locate(*tensor);
  return place ? place->chunk : 0;
}

Result<std::uint32_t> VerbsChannel::key_of(const Tensor& tensor, Payload& payload) noexcept {
  Regions& regions = *links_[payload.link].rail->regions;
  if (tensor.arena() != rank_.local.adopted.get())
    return regions.local_key(tensor.data(), tensor.extent());
  const auto place = rank_.local.adopted->locate(tensor);
  if (!place)
    return refuse(Code::closed, [&] {
      return ErrorDetail{.operation = "put",
                         .message = "the adopted memory was given back to its user",
                         .hint = "keep the tensor until the put has ended"};
    });
  auto lease = regions.lend(place->chunk);
  if (!lease.ok()) return lease.status();
  const std::uint32_t key = lease->chunk().local_key;
  payload.kept.leases.push_back(std::move(*lease));
  return key;
}

Status VerbsChannel::collect(PutWork& work, Payload& payload) noexcept {
  if (work.bytes == 0) return {};
  if (work.parts.empty()) {
    if (fits_inline(work.bytes, *pairs_.front())) {
      payload.add(work.source, work.bytes, 0);
      return {};
    }
    const auto key = work.tensor != nullptr
                         ? key_of(*work.tensor, payload)
                         : links_[payload.link].rail->regions->local_key(work.source, work.bytes);
    if (!key.ok()) return unregistered(key.status());
    payload.add(work.source, work.bytes, *key, adopted_chunk_of(work.tensor));
    return {};
  }
  std::size_t runs = 0;
  for (const Tensor& part : work.parts)
    for_each_run(part, [&](const std::byte*, std::size_t) { ++runs; });
  if (runs > Payload::kMost) return pack(work, payload);
  for (const Tensor& part : work.parts) {
    if (part.bytes() == 0) continue;
    const auto key = key_of(part, payload);
    if (!key.ok()) return unregistered(key.status());
    const std::uint32_t adopted = adopted_chunk_of(&part);
    payload.on_gpu = payload.on_gpu || part.memory().is_gpu();
    for_each_run(part, [&](const std::byte* data, std::size_t bytes) {
      payload.add(data, bytes, *key, adopted);
    });
  }
  return {};
}

bool VerbsChannel::reaches_gpu(const Tensor& tensor, std::string* why_not) noexcept {
  const auto key = near().regions->local_key(tensor.data(), tensor.extent());
  if (!key.ok() && why_not != nullptr)
    *why_not = text_or_empty([&] { return key.status().detail().message; });
  return key.ok();
}

std::size_t VerbsChannel::most_with_tail() const noexcept {
  const std::uint64_t longest = near().device->limits().max_message;
  // One write holds it all: the payload, what fills it up to the word, the word.
  if (notify_mode_ != NotifyMode::tail ||
      pairs_.front()->limits().max_pieces <= Payload::kTailPieces || longest < bytes_with_tail(1))
    return 0;
  const std::uint64_t most = longest - bytes_with_tail(1);
  // A payload that several queue pairs carry faster does not go by one, unless WEFT_NOTIFY=tail.
  const bool is_asked = rank_.rails.options().notify_mode == NotifyMode::tail;
  return pairs_.size() == 1 || is_asked ? most : std::min<std::uint64_t>(most, kStripeBytes - 1);
}

Status VerbsChannel::pack(PutWork& work, Payload& payload) noexcept {
  {
    // A copy for nothing is worse than a look that may be too early.
    QueuePair& pair = *pairs_[payload.link * per_link_ + work.notification_id % per_link_];
    const std::lock_guard lock(pair.mutex());
    if (!pair.has_room_for(2, 1)) return full();
  }
  try {
    OwnedBlock block(rank_.local.staging, work.bytes);
    std::byte* to = block.data();
    for (const Tensor& part : work.parts)
      for_each_run(part, [&to](const std::byte* from, std::size_t bytes) {
        std::memcpy(to, from, bytes);
        to += bytes;
      });
    const auto key = links_[payload.link].rail->regions->local_key(block.data(), work.bytes);
    if (!key.ok()) return unregistered(key.status());
    payload.add(block.data(), work.bytes, *key);
    payload.kept.packed = std::move(block);
    return {};
  } catch (...) {
    return caught_status();
  }
}

[[gnu::always_inline]] inline bool VerbsChannel::goes_at_once(const PutWork& work) const noexcept {
  return work.parts.empty() && immediates_ && work.with_tail.address == 0 &&
         notify_mode_ != NotifyMode::counted && fits_inline(work.bytes, *pairs_.front());
}

[[gnu::always_inline]] inline Status VerbsChannel::put_inline(PutWork& work) noexcept {
  const std::size_t chosen = place_of(work);
  QueuePair& pair = *pairs_[chosen];
  const std::uint32_t immediate =
      Immediate{work.notification_id, false, static_cast<std::uint32_t>(work.sequence)}.word();
  ibv_sge place{reinterpret_cast<std::uint64_t>(work.source),
                static_cast<std::uint32_t>(work.bytes), 0};
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_INLINE;
  request.imm_data = htonl(immediate);
  request.sg_list = &place;
  request.num_sge = work.bytes == 0 ? 0 : 1;
  request.wr.rdma.remote_addr = work.payload.address;
  request.wr.rdma.rkey = work.payload.key;
  const std::lock_guard lock(pair.mutex());
  if (has_failed()) return broken("put");
  if (!pair.has_room_for(1, 1)) return full();
  const int error = pair.post(&request, 1, 1, false);
  if (error == ENOMEM) return full();
  if (error != 0) return give_up(error);
  work.requests = 1;
  work.source_is_free = true;
  work.posted = (chosen + 1) << kPairShift | pair.posted();
  return {};
}

Status VerbsChannel::put(PutWork& work) noexcept {
  if (!is_open()) return broken("put");
  if (long_puts_.count.load(std::memory_order_acquire) != 0 && is_being_put(work.notification_id))
      [[unlikely]]
    return full();
  if (!goes_at_once(work)) return put_tensor(work);
  return several_ ? put_in_order(work) : put_inline(work);
}

// Apart, as its payload takes kilobytes of the stack.
[[gnu::noinline]] Status VerbsChannel::put_tensor(PutWork& work) noexcept {
  const std::size_t main = main_pair();
  if (main == kNoPair) return put_off();
  Payload payload;
  payload.link = main / per_link_;
  if (Status status = collect(work, payload); !status.ok()) return status;
  // The words of a slot with tails are set one by one.
  const bool may_be_in_pieces = work.with_tail.address == 0 && immediates_ &&
                                notify_mode_ != NotifyMode::send && pairs_.size() > 1;
  // A share is one stretch, and several on a GPU can't be packed.
  const bool one_or_host = !several_ || payload.is_one() || !payload.on_gpu;
  const bool in_pieces =
      work.queue_pair < 0 && one_or_host &&
      (notify_mode_ == NotifyMode::counted || (may_be_in_pieces && payload.bytes >= kStripeBytes));
  if (in_pieces && several_ && !payload.is_one()) {
    // A share is one stretch, so that it can be sent again.
    payload.count = 0;
    payload.bytes = 0;
    if (Status status = pack(work, payload); !status.ok()) return status;
  }
  const Status status =
      in_pieces ? put_in_pieces(work, payload) : put_whole(work, payload, main + place_of(work));
  if (!status.ok()) return status;
  if (payload.kept.packed) {
    work.copied = work.bytes;
    work.source_is_free = true;
  }
  if (payload.kept.packed || !payload.kept.leases.empty()) {
    payload.kept.posted = work.posted;
    kept_.keep(std::move(payload.kept));
  }
  return {};
}

bool VerbsChannel::takes_tail(const PutWork& work, const Payload& payload) const noexcept {
  const std::size_t most =
      std::min(pairs_.front()->limits().max_pieces, WorkRequestChain::kMostPieces);
  return work.with_tail.address != 0 && payload.count + Payload::kTailPieces <= most;
}

Status VerbsChannel::put_whole(PutWork& work, const Payload& payload, std::size_t chosen) noexcept {
  const bool tail = takes_tail(work, payload);
  Sending sending{.pair = chosen,
                  .notify_method = tail ? NotifyMethod::tail : NotifyMethod::immediate};
  if (!tail && !immediates_) sending.notify_method = NotifyMethod::message;
  sending.rest = {.pieces = payload.all(), .to = tail ? work.with_tail : work.payload};
  sending.is_ordered = true;
  sending.all = payload.all();
  sending.whole_to = sending.rest.to;
  if (!reach_by(payload.link, sending.rest.to)) return broken("put");
  sending.immediate =
      Immediate{work.notification_id, false, static_cast<std::uint32_t>(work.sequence)}.word();
  sending.tail = work.sequence;
  sending.pad = tail ? static_cast<std::uint32_t>(tail_offset(work.bytes) - work.bytes) : 0;
  sending.is_inline = !payload.on_gpu && fits_inline(payload.bytes, *pairs_[chosen]);
  work.requests = std::max(1U, requests_for(sending.rest, *pairs_[chosen]));
  if (work.requests > chain_of(*pairs_[chosen]).most_requests())
    return put_by_and_by(work, std::span(&sending, 1), failover_.silent.load(),
                         payload.link * per_link_);
  const Step step = post_next(sending);
  if (step == Step::no_room) return full();
  if (step == Step::failed) return broken("put");
  work.source_is_free = sending.is_inline;
  work.posted = (chosen + 1) << kPairShift | sending.last;
  return {};
}

WorkRequestChain VerbsChannel::chain_of(const QueuePair& pair) const noexcept {
  return {pair.limits().max_pieces, pair.limits().max_message, pair.limits().max_chain};
}

std::uint32_t VerbsChannel::requests_for(PayloadCursor rest, const QueuePair& pair) const noexcept {
  if (rest.pieces.size() == 1) {
    const std::uint64_t most = pair.limits().max_message;
    return static_cast<std::uint32_t>((rest.pieces.front().bytes + most - 1) / most);
  }
  WorkRequestChain chain = chain_of(pair);
  std::uint32_t count = 0;
  while (!rest.pieces.empty()) {
    rest.fill(chain);
    count += chain.count();
  }
  return count;
}

VerbsChannel::Step VerbsChannel::post_next(Sending& sending) noexcept {
  QueuePair& pair = *pairs_[sending.pair];
  WorkRequestChain chain = chain_of(pair);
  PayloadCursor rest = sending.rest;
  rest.fill(chain);
  const bool is_last = rest.pieces.empty();
  const std::uint32_t requests = chain.count() + (is_last && sending.adds_request(chain) ? 1 : 0);
  const bool is_notified =
      sending.notify_method != NotifyMethod::tail && sending.notify_method != NotifyMethod::none;
  const std::uint32_t notifications = is_last && is_notified ? 1 : 0;
  const std::lock_guard lock(pair.mutex());
  if (has_failed()) return Step::failed;
  const bool is_first_try = several_ && sending.is_ordered && !sending.is_again;
  if (is_first_try && main_pair() != sending.pair / per_link_ * per_link_) return Step::no_room;
  if (!pair.has_room_for(requests, notifications)) return Step::no_room;
  if (is_last && is_first_try && !log_put(sending)) return Step::no_room;
  if (is_last) finish(sending, chain);
  if (sending.is_inline) chain.send_inline();
  const int error = pair.post(chain.chain(), requests, notifications, !sending.is_inline);
  if (error == ENOMEM) return Step::no_room;  // whatever was counted here
  if (error != 0) {
    (void)give_up(error);
    return Step::failed;
  }
  sending.rest = rest;
  sending.is_out = is_last;
  sending.last = pair.posted();
  sending.notification = pair.notifications_sent();
  if (is_last && is_first_try) add_put(sending);
  return Step::posted;
}

void VerbsChannel::finish(const Sending& sending, WorkRequestChain& chain) noexcept {
  if (sending.adds_request(chain)) chain.add_empty();
  ibv_send_wr& end = chain.last();
  if (sending.notify_method == NotifyMethod::none) return;
  if (sending.notify_method == NotifyMethod::immediate ||
      sending.notify_method == NotifyMethod::separate) {
    end.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    end.imm_data = htonl(sending.immediate);
    return;
  }
  const auto [word, key] = pairs_[sending.pair]->next_word(chain.count());
  const auto address = reinterpret_cast<std::uint64_t>(word);
  if (sending.notify_method == NotifyMethod::message) {
    *word = MessageHead::short_form(sending.immediate);
    end.opcode = IBV_WR_SEND;
    end.sg_list[end.num_sge++] = {address, sizeof *word, key};
    return;
  }
  *word = sending.tail;
  if (sending.pad != 0) end.sg_list[end.num_sge++] = {address, sending.pad, key};
  end.sg_list[end.num_sge++] = {address, sizeof *word, key};
}

Status VerbsChannel::give_up(int error) noexcept {
  fail(refuse(Code::path_failed, [&] {
    return ErrorDetail{.operation = "put",
                       .message = fmt::format("{}: posting to rank {}: {}", near().device->name(),
                                              peer_, std::strerror(error)),
                       .hint = "this is a defect of weft: please report it with WEFT_LOG=debug",
                       .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("put"));
  return broken("put");
}

}  // namespace weft::p2p::verbs
