// How a slot's puts say that they are there: a word of their own, or one right behind the tensor.
#include <algorithm>
#include <utility>

#include "p2p/slot/slot_state.hpp"

namespace weft::detail {

using p2p::TailBuffers;

void SlotState::grant_tails(const p2p::Peer& peer, const p2p::AttachMessage& asked,
                            p2p::AttachedMessage& granted) {
  const std::uint64_t most =
      std::min<std::uint64_t>(asked.tails_up_to, peer.channel->capabilities().tails_up_to.load());
  // Memory that a user gave holds the tensors and nothing between them.
  const bool has_room =
      memory_.empty() && (stride_ == 0 || stride_ >= p2p::bytes_with_tail(bytes_));
  if (spec_.writer != p2p::Writer::peer || notify_ == p2p::Notify::always || !has_room ||
      most == 0 || bytes_ > most)
    return;
  if (!tails_made_) make_tails();
  granted.tails = tails_made_->ref();
  granted.tail_stride = tails_made_->stride();
}

void SlotState::make_tails() {
  TailBuffers::Place place;
  if (stride_ == 0) {
    place.stride = p2p::Heap::rounded(p2p::bytes_with_tail(bytes_));
    place.own = p2p::OwnedBlock(local_.control, place.stride * spec_.depth);
  } else {
    place.stride = stride_;
  }
  const p2p::OwnedBlock& memory = stride_ == 0 ? place.own : buffers_;
  const p2p::Block& block = memory.block();
  place.first = memory.data();
  place.ref = {block.chunk, block.offset, block.bytes};
  tails_made_ = std::make_unique<TailBuffers>(spec_, bytes_, std::move(place));
  tails_.store(tails_made_.get(), std::memory_order_release);
}

void SlotState::expect_puts(Attachment& attachment, p2p::AttachedMessage& granted) {
  const bool tails = granted.tail_stride != 0;
  attachment.notification_id = granted.notification_id =
      attachment.peer->channel->expect({.words = lines_.data(),
                                        .count = spec_.depth,
                                        .stride = sizeof(p2p::SlotLine),
                                        .in_turn = true,
                                        .last = granted.sequence,
                                        .passed = tails ? &released_ : nullptr,
                                        .places = {granted.lines, granted.buffers}});
  if (!tails) return;
  attachment.tails = true;
  reported_silent_ = granted.sequence;
  local_.waiter.count_silent(1);
  local_.ring();  // who sleeps already must look by itself from now on
}

void SlotState::expect_no_more(Attachment& attachment) noexcept {
  if (attachment.notification_id)
    attachment.peer->channel->expect_no_more(*std::exchange(attachment.notification_id, {}));
  if (std::exchange(attachment.tails, false)) local_.waiter.count_silent(-1);
}

bool SlotState::came_silently() noexcept {
  if (!tails_made_) return false;
  const std::uint64_t before = reported_silent_;
  while (sequence_at(buffer_of(reported_silent_ + 1)) > reported_silent_) ++reported_silent_;
  return reported_silent_ != before;
}

}  // namespace weft::detail
