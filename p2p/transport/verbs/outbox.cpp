// Sends besides puts: notifications, words, control messages. All with the outbox's lock
// held.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {

bool VerbsChannel::post_notification(std::size_t at, std::uint32_t immediate) noexcept {
  QueuePair& pair = *pairs_[at];
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
  if (pair.post(&work, 1, 1, false) != 0) return false;
  if (several_ && immediate == Immediate::kAck) log_ack();
  return true;
}

bool VerbsChannel::post_ack() noexcept {
  const std::size_t at = main_pair();
  if (at == kNoPair) return false;
  const std::lock_guard lock(pairs_[at]->mutex());
  return post_notification(at, Immediate::kAck);
}

bool VerbsChannel::write_word(std::size_t at, const RemoteMemory& to, std::uint64_t value,
                              bool with_immediate) noexcept {
  QueuePair& pair = *pairs_[at];
  const auto [word, key] = pair.next_word(1);
  *word = value;
  ibv_sge place{reinterpret_cast<std::uint64_t>(word), sizeof *word, key};
  ibv_send_wr work{};
  work.opcode = with_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  work.imm_data = htonl(Immediate::kAck);
  work.sg_list = &place;
  work.num_sge = 1;
  work.wr.rdma.remote_addr = to.address;
  work.wr.rdma.rkey = to.key;
  if (pair.limits().max_inline >= sizeof *word) work.send_flags = IBV_SEND_INLINE;
  return pair.post(&work, 1, with_immediate ? 1 : 0, false) == 0;
}

bool VerbsChannel::post_word(const Word& waiting) noexcept {
  if (!is_open()) return has_failed();
  const std::size_t at = main_pair();
  if (at == kNoPair) return false;
  RemoteMemory place = waiting.place;
  if (!reach_by(at / per_link_, place)) return true;
  QueuePair& pair = *pairs_[at];
  const std::lock_guard lock(pair.mutex());
  const bool is_told_apart = waiting.rings && !immediates_;  // by a request of its own
  if (!pair.has_room_for(is_told_apart ? 2 : 1, waiting.rings ? 1 : 0)) return false;
  const bool with_immediate = waiting.rings && immediates_;
  if (!write_word(at, place, waiting.value, with_immediate)) return false;
  if (several_) {
    failover_.words.add({.place = waiting.place,
                         .value = waiting.value,
                         .after = ordered_of(at).sent(),
                         .pair = at,
                         .request = pair.posted()});
    if (with_immediate) log_ack();
  }
  return !is_told_apart || post_notification(at, Immediate::kAck);
}

bool VerbsChannel::fence_others() noexcept {
  if (notify_mode_ != NotifyMode::tail) return true;
  // Puts by tail words are not counted: an empty notification behind them is.
  for (std::size_t i = 1; i < pairs_.size(); ++i) {
    const std::lock_guard lock(pairs_[i]->mutex());
    if (is_silent(i) || pairs_[i]->posted() == outbox_.fenced[i]) continue;
    if (!post_notification(i, Immediate::kFence)) return false;
    outbox_.fenced[i] = pairs_[i]->posted();
    if (const std::uint64_t number = pairs_[i]->notifications_sent(); i >= per_link_ && several_)
      log_of(i).at(number) = {
          .number = number, .request = pairs_[i]->posted(), .immediate = Immediate::kFence};
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

bool VerbsChannel::post_at_once(const LinkMessage& message) noexcept {
  std::byte* const buffer = is_open() ? free_send_buffer() : nullptr;
  if (buffer == nullptr) return false;
  const std::size_t at = failover_.main * per_link_;
  const std::size_t bytes = fill_buffer(buffer, MessageHead::Kind::link, as_bytes(message));
  const std::lock_guard lock(pairs_[at]->mutex());
  return post_buffer(at, bytes);
}

bool VerbsChannel::post_send(MessageHead::Kind kind, std::span<const std::byte> message,
                             const Share* share) noexcept {
  const std::size_t at = main_pair();
  std::byte* const buffer = at == kNoPair ? nullptr : free_send_buffer();
  if (buffer == nullptr) return false;
  const std::size_t bytes = fill_buffer(buffer, kind, message);
  const std::lock_guard lock(pairs_[at]->mutex());
  if (!pairs_[at]->has_room_for(1, 1)) return false;
  if (several_ && !log_message({buffer, bytes}, share)) return false;
  if (!post_buffer(at, bytes)) return false;
  if (several_) ordered_of(at).add();
  return true;
}

std::size_t VerbsChannel::fill_buffer(std::byte* buffer, MessageHead::Kind kind,
                                      std::span<const std::byte> message) const noexcept {
  MessageHead head;
  head.kind = kind;
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    head.notified[i] = pairs_[i]->notifications_sent();
  std::memcpy(buffer, &head, sizeof head);
  std::memcpy(buffer + sizeof head, message.data(), message.size());
  return sizeof head + message.size();
}

std::byte* VerbsChannel::free_send_buffer() noexcept {
  QueuePair& pair = *pairs_[outbox_.send_pairs[outbox_.next_buffer]];
  if (pair.has_ended(outbox_.send_ends[outbox_.next_buffer]))
    return outbox_.send_buffers.data() + outbox_.next_buffer * kSendBuffer;
  pair.ask_for_completion();
  return nullptr;
}

bool VerbsChannel::post_buffer(std::size_t at, std::size_t bytes) noexcept {
  QueuePair& pair = *pairs_[at];
  ibv_sge place{reinterpret_cast<std::uint64_t>(outbox_.send_buffers.data() +
                                                outbox_.next_buffer * kSendBuffer),
                static_cast<std::uint32_t>(bytes), outbox_.send_keys[at / per_link_]};
  ibv_send_wr work{};
  work.opcode = IBV_WR_SEND;
  work.sg_list = &place;
  work.num_sge = 1;
  if (!pair.has_room_for(1, 1) || pair.post(&work, 1, 1, true) != 0) return false;
  outbox_.send_ends[outbox_.next_buffer] = pair.posted();
  outbox_.send_pairs[outbox_.next_buffer] = at;
  outbox_.next_buffer = (outbox_.next_buffer + 1) % outbox_.send_ends.size();
  return true;
}

}  // namespace weft::p2p::verbs
