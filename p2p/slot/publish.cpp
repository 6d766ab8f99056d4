// The owner's side of a published slot: a buffer that nobody pins, then the words that announce it.
#include <fmt/format.h>

#include "p2p/progress/fences.hpp"
#include "p2p/slot/slot_state.hpp"

namespace weft::detail {

using p2p::WaitEnd;

const Attachment* SlotState::pinning_reader(std::uint64_t buffer) const noexcept {
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts() &&
        attachment->words().pins(buffer).load(std::memory_order_acquire) != 0)
      return attachment;
  return nullptr;
}

const Attachment* SlotState::lagging_reader(std::uint64_t release_needed) const noexcept {
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts() &&
        attachment->words().released().load(std::memory_order_acquire) < release_needed)
      return attachment;
  return nullptr;
}

bool SlotState::take(std::uint64_t buffer) noexcept {
  if (pinning_reader(buffer) != nullptr) return false;
  auto& word = published_words_.version(buffer);
  const std::uint64_t version = word.load(std::memory_order_relaxed);
  word.store(0, std::memory_order_relaxed);
  // A reader that pins after this point sees that the buffer is being filled and unpins it; a
  // reader that pinned before is seen below.
  p2p::full_barrier();
  if (pinning_reader(buffer) != nullptr) {
    word.store(version, std::memory_order_release);
    // A reader may have gone to sleep over the word that is back now.
    for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
         attachment = attachment->next)
      if (attachment->counts()) attachment->peer->channel->notify();
    return false;
  }
  filling_ = buffer;
  return true;
}

bool SlotState::take_any() noexcept {
  // The oldest value first; the newest only where there is no other buffer.
  const std::uint64_t newest = newest_.buffer;
  const std::uint64_t others =
      newest_.version == 0 || spec_.depth == 1 ? spec_.depth : spec_.depth - 1;
  for (std::uint64_t i = 1; i <= others; ++i)
    if (take((newest + i) % spec_.depth)) return true;
  return false;
}

Result<Tensor> SlotState::next(Deadline deadline) noexcept {
  if (filling_) return tensors_[*filling_];
  if (spec_.flow != Flow::credits) return next_in_turn();
  const WaitEnd end = local_.waiter.wait(
      [this] { return take_any(); }, [this] { return !mesh_.peer_status(needs_, needed_).ok(); },
      deadline,
      [this] {
        const Attachment* attachment = pinning_reader((newest_.buffer + 1) % spec_.depth);
        return stats::WaitAbout{.operation = stats::Operation::next,
                                .peer = attachment == nullptr ? -1 : attachment->peer->rank,
                                .slot = id_,
                                .sequence = newest_.version + 1};
      });
  if (end == WaitEnd::ready) return tensors_[*filling_];
  ErrorDetail detail;
  if (end == WaitEnd::broken) {
    detail = mesh_.peer_status(needs_, needed_).detail();
  } else {
    const std::uint64_t oldest = (newest_.buffer + 1) % spec_.depth;
    const Attachment* attachment = pinning_reader(oldest);
    local_.recorder.control(stats::Event::timeout, -1, id_, newest_.version + 1);
    detail.code = Code::timeout;
    detail.rank = local_.rank;
    detail.hint =
        "readers let a version go by destroying its Arrival; more depth allows more views";
    detail.message = "every buffer was being viewed";
    if (attachment != nullptr) {
      const std::uint64_t version = published_words_.version(oldest).load();
      detail.peer = attachment->peer->rank;
      detail.host = attachment->peer->host();
      detail.sequence_expected = detail.sequence_seen = version;
      detail.message = fmt::format("rank {} (host {}) has not let go of version {}{}", detail.peer,
                                   detail.host, version, mesh_.suspicion(detail.peer));
    }
  }
  detail.operation = "next";
  detail.slot = spec_.name;
  return Status(std::move(detail));
}

Result<Tensor> SlotState::next_in_turn() noexcept {
  const std::uint64_t version = newest_.version + 1;
  // Announced before the readers are looked at: who attaches meanwhile keeps away from the buffer.
  writing_.store(version, std::memory_order_seq_cst);
  if (credits_ && version > spec_.depth)
    if (const Attachment* attachment = lagging_reader(version - spec_.depth); attachment != nullptr)
      return failure(Code::flow_overrun, "next",
                     fmt::format("rank {} still reads version {} of this synchronous slot",
                                 attachment->peer->rank, version - spec_.depth),
                     "the loop does not guarantee consumption: use Flow::credits");
  filling_ = buffer_of(version);
  return tensors_[*filling_];
}

Status SlotState::publish() noexcept {
  if (!filling_)
    return failure(Code::bad_argument, "publish", "there is no buffer from next() to publish",
                   "call next(), fill the tensor, then publish()");
  newest_ = {newest_.version + 1, *filling_};
  filling_.reset();
  published_words_.version(newest_.buffer).store(newest_.version, std::memory_order_release);
  published_words_.newest().store(newest_.word(), std::memory_order_release);
  counters_.transfers.add(1);
  local_.recorder.data(stats::Event::published, -1, id_, newest_.version);
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts()) announce(*attachment);
  return {};
}

void SlotState::announce(Attachment& attachment) noexcept {
  if (!attachment.wants_newest) return attachment.peer->channel->notify();
  if (!attachment.gate.enter()) return;
  attachment.peer->channel->put_word(attachment.credit_word, newest_.word(), p2p::Notify::always);
  counters_.credit_writes.add(1);
  attachment.gate.leave();
}

int SlotState::readers() const noexcept {
  int count = 0;
  for (Attachment* attachment = readers_.load(std::memory_order_acquire); attachment != nullptr;
       attachment = attachment->next)
    if (attachment->counts()) ++count;
  return count;
}

}  // namespace weft::detail
