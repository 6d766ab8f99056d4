// The messages that come from a session's peer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "p2p/rendezvous/session_context.hpp"
#include "p2p/slot/put/owner.hpp"

namespace weft::p2p::rendezvous {

/// Takes messages from a slot, and from the control channel. A SessionLock guards it, except where
/// noted.
class MessageInbox {
 public:
  explicit MessageInbox(SessionContext& session) noexcept : session_(session) {}
  /// Closes the slot.
  ~MessageInbox();
  MessageInbox(const MessageInbox&) = delete;
  MessageInbox& operator=(const MessageInbox&) = delete;

  /// Creates the slot. Throws what SlotTable::expose() throws.
  void expose();

  /// Queues a message that came on the control channel. Returns false if too many are queued.
  /// Progress thread, without a SessionLock.
  bool on_control(std::span<const std::byte> bytes);
  /// True if the slot has the message that arm() has announced. Any thread.
  bool has_arrival() const noexcept {
    const auto* word = word_.load();
    return word != nullptr && word->load() >= wanted_.load();
  }

  /// Calls `handle` with each message of the slot. Returns false if the peer violates the protocol;
  /// nothing more may be read then.
  template <typename Handle>
  bool read_slot(const Handle& handle) {
    std::array<std::byte, kMaxRendezvousMessage> copy;
    while (slot_->ready()) {
      auto arrival = slot_->wait(Deadline::at({}));
      if (!arrival.ok()) return false;
      // Copy before checking: the writer can still change the message.
      std::memcpy(copy.data(), arrival->tensor().data(), session_.spec.message_bytes);
      arrival->release();
      handle(std::span<const std::byte>(copy).first(session_.spec.message_bytes));
    }
    return true;
  }
  /// Calls `handle` with each message of the control channel.
  template <typename Handle>
  void read_control(const Handle& handle) {
    for (const auto& message : take_by_control()) handle(message);
  }
  /// Announces the next arrival to has_arrival(). Returns true if the message is there already.
  bool arm() noexcept {
    const auto [word, wanted] = slot_->next_arrival();
    wanted_.store(wanted);
    word_.store(word);
    return word->load() >= wanted;
  }
  /// Call when no more messages are read for now.
  void before_wait() noexcept { slot_->before_wait(); }

 private:
  std::vector<std::vector<std::byte>> take_by_control() noexcept;

  SessionContext& session_;
  std::mutex control_mutex_;
  std::vector<std::vector<std::byte>> by_control_;
  std::shared_ptr<detail::PutOwner> slot_;
  std::atomic<const std::atomic<std::uint64_t>*> word_{nullptr};
  std::atomic<std::uint64_t> wanted_{0};
};

}  // namespace weft::p2p::rendezvous
