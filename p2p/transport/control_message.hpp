// The head of every control message between two ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace weft::p2p {

/// The first word of a message. It is for the shm fabric (its own messages never leave
/// it), the mesh, the slots, a rendezvous, messages, signals, or a group. No such message is on the
/// steady path.
enum class MessageType : std::uint32_t {
  handshake,      ///< shm: connector -> acceptor: which rank it says it is
  answer,         ///< shm: acceptor -> connector: proves which rank it is
  connect,        ///< shm: connector -> acceptor, with the control chunk and an event descriptor
  accept,         ///< shm: acceptor -> connector, with the same
  chunk,          ///< shm: a chunk's descriptor, before the first message that refers to it
  device_chunk,   ///< shm: a chunk of a GPU's memory, by descriptor too
  chunk_wanted,   ///< asks for a chunk that a tensor's record referred to
  adopted,        ///< shm: where adopted memory lies in the sender's process
  forget,         ///< shm: adopted memory was given back
  chunk_again,    ///< shm: a chunk's descriptor has not come: there was no room for it
  reaches,        ///< shm: whether the connector reaches into the acceptor's process
  stats,          ///< shm: the sender's stats segment, to be kept for when it is dead
  registered,     ///< verbs: where a chunk lies and its key, before what refers to it
  given_back,     ///< verbs: adopted memory was given back
  attach,         ///< asks for an end of a slot
  attached,       ///< grants it
  refused,        ///< refuses it, with the reason
  withdraw,       ///< the asker no longer waits
  detach,         ///< the remote end is gone
  detached,       ///< the owner will write the remote end's words no more
  closed,         ///< the owner has closed the slot
  closed_agreed,  ///< the remote end will touch the slot's memory no more
  credit_wanted,  ///< the writer is held up: report every tensor that was let go
  leaving,        ///< mesh: the rank leaves the job
  rendezvous,     ///< a rendezvous' message that a chunk had to go before
  collective,     ///< a group of collectives is opened, closed, or can't go on
  agreement,      ///< who of a group goes on
  ending,         ///< mesh: the rank's process is about to end
  suspicion,      ///< another rank of the host does not run
  ring_wanted,    ///< messages: the first one waits for a ring
  ring_granted,   ///< messages: where the ring lies
  ring_refused,   ///< messages: there will be none, with the reason
  signal_wanted,  ///< asks for an end of a signal
  signal_given,   ///< grants it
  signal_left,    ///< the remote end will touch the signal no more
  signal_act,     ///< an operation of a rank that shares no memory with the owner
  signal_reply,   ///< the value before it
  gpu_way,        ///< a slot on a GPU: the writer's way to it, or a page that is to prove one
  gpu_page_seen,  ///< whether the owner's GPU sees that page
  flow_question,  ///< WEFT_CHECK=flow: whether a tensor was let go, before another takes its place
  flow_answer,    ///< answers it
  put_refused     ///< the writer has refused a put, with the reason
};

/// Whether a message may arrive before puts that were posted before it: one that asks for something
/// new, its answer, and what ranks tell of each other. It never passes another message.
inline bool may_overtake_puts(std::span<const std::byte> message) noexcept {
  MessageType type{};
  if (message.size() < sizeof type) return false;
  std::memcpy(&type, message.data(), sizeof type);
  switch (type) {
    case MessageType::chunk_wanted:
    case MessageType::attach:
    case MessageType::attached:
    case MessageType::refused:
    case MessageType::withdraw:
    case MessageType::agreement:
    case MessageType::suspicion:
    case MessageType::ring_wanted:
    case MessageType::ring_granted:
    case MessageType::ring_refused:
    case MessageType::signal_wanted:
    case MessageType::signal_given:
      return true;
    default:
      return false;
  }
}

/// The message in `bytes`, if it has exactly that type's size.
template <typename Message>
std::optional<Message> parse(std::span<const std::byte> bytes) noexcept {
  static_assert(std::is_trivially_copyable_v<Message>);
  if (bytes.size() != sizeof(Message)) return std::nullopt;
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}

/// Whether the members of a message fill it. Padding would carry bytes of the sender's stack to the
/// peer. Specialised for messages with floating-point members.
template <typename Message>
inline constexpr bool kHasNoPadding = std::has_unique_object_representations_v<Message>;

/// The bytes of a message as it travels.
template <typename Message>
std::span<const std::byte> as_bytes(const Message& message) noexcept {
  static_assert(std::is_trivially_copyable_v<Message>);
  static_assert(kHasNoPadding<Message>);
  return std::as_bytes(std::span(&message, 1));
}

}  // namespace weft::p2p
