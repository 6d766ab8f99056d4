// Sends besides puts: notifications, words, control messages. All with the outbox's lock
// held.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {

bool VerbsChannel::post_notification(QueuePair& pair, std::uint32_t immediate) noexcept {
  if (!pair.has_room_for(1, 1)) return false;
  ibv_send_wr work{};
  ibv_sge place{};
  if (immediates_) {
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.imm_data = htonl(immediate);
  } else {
    const auto [word, key] = pair.next_word(1);
    *word = MessageHead::short_form(immediate);
    place = {reinterpret_cast<std::uint64_t>(word), sizeof *word, key};
    work.opcode = IBV_WR_SEND;
    work.sg_list = &place;
    work.num_sge = 1;
  }
  return pair.post(&work, 1, 1, false) == 0;
}

bool VerbsChannel::post_word(const Word& waiting) noexcept {
  if (!is_open()) return has_failed();
  QueuePair& pair = *pairs_.front();
  const std::lock_guard lock(pair.mutex());
  const bool is_told_apart = waiting.rings && !immediates_;  // by a request of its own
  if (!pair.has_room_for(is_told_apart ? 2 : 1, waiting.rings ? 1 : 0)) return false;
  const auto [word, key] = pair.next_word(1);
  *word = waiting.value;
  ibv_sge place{reinterpret_cast<std::uint64_t>(word), sizeof *word, key};
  ibv_send_wr work{};
  const bool with_immediate = waiting.rings && immediates_;
  work.opcode = with_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  work.imm_data = htonl(Immediate::kAck);
  work.sg_list = &place;
  work.num_sge = 1;
  work.wr.rdma.remote_addr = waiting.place.address;
  work.wr.rdma.rkey = waiting.place.key;
  if (pair.limits().max_inline >= sizeof *word) work.send_flags = IBV_SEND_INLINE;
  if (pair.post(&work, 1, with_immediate ? 1 : 0, false) != 0) return false;
  return !is_told_apart || post_notification(pair, Immediate::kAck);
}

bool VerbsChannel::fence_others() noexcept {
  if (notify_mode_ != NotifyMode::tail) return true;
  // Puts by tail words are not counted: an empty notification behind them is.
  for (std::size_t i = 1; i < pairs_.size(); ++i) {
    const std::lock_guard lock(pairs_[i]->mutex());
    if (is_silent(i) || pairs_[i]->posted() == outbox_.fenced[i]) continue;
    if (!post_notification(*pairs_[i], Immediate::kFence)) return false;
    outbox_.fenced[i] = pairs_[i]->posted();
    if (is_far(i))
      log_of(i).at(pairs_[i]->notifications_sent()) = {.request = pairs_[i]->posted(),
                                                       .immediate = Immediate::kFence};
  }
  return true;
}

bool VerbsChannel::post_message(std::span<const std::byte> message) noexcept {
  if (!is_open()) return has_failed();
  if (long_puts_.count.load() != 0) return false;
  return fence_others() && post_send(MessageHead::Kind::message, message);
}

bool VerbsChannel::post_link(const LinkMessage& message) noexcept {
  return is_open() && post_send(MessageHead::Kind::link, as_bytes(message));
}

bool VerbsChannel::post_send(MessageHead::Kind kind, std::span<const std::byte> message) noexcept {
  QueuePair& pair = *pairs_.front();
  if (!pair.has_ended(outbox_.send_ends[outbox_.next_buffer])) {
    pair.ask_for_completion();
    return false;
  }
  MessageHead head;
  head.kind = kind;
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    head.notified[i] = pairs_[i]->notifications_sent();
  std::byte* buffer = outbox_.send_buffers.data() + outbox_.next_buffer * kSendBuffer;
  std::memcpy(buffer, &head, sizeof head);
  std::memcpy(buffer + sizeof head, message.data(), message.size());
  ibv_sge place{reinterpret_cast<std::uint64_t>(buffer),
                static_cast<std::uint32_t>(sizeof head + message.size()), outbox_.send_key};
  ibv_send_wr work{};
  work.opcode = IBV_WR_SEND;
  work.sg_list = &place;
  work.num_sge = 1;
  const std::lock_guard lock(pair.mutex());
  if (!pair.has_room_for(1, 1) || pair.post(&work, 1, 1, true) != 0) return false;
  outbox_.send_ends[outbox_.next_buffer] = pair.posted();
  outbox_.next_buffer = (outbox_.next_buffer + 1) % outbox_.send_ends.size();
  return true;
}

}  // namespace weft::p2p::verbs
