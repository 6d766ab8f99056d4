// The messages that a session sends to its peer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "p2p/rendezvous/session_context.hpp"
#include "p2p/slot/put/writer.hpp"

namespace weft::p2p::rendezvous {

/// Puts messages into the peer's slot, or sends them on the control channel. A SessionLock guards
/// it, except where noted.
class MessageOutbox {
 public:
  explicit MessageOutbox(SessionContext& session);
  /// Detaches from the slot.
  ~MessageOutbox();
  MessageOutbox(const MessageOutbox&) = delete;
  MessageOutbox& operator=(const MessageOutbox&) = delete;

  /// The chunk of the messages, which the peer must know before attach().
  std::uint32_t chunk() const noexcept { return chunk_; }
  /// Attaches to the peer's slot. Throws what SlotTable::attach() throws.
  void attach(Deadline deadline);

  // Any thread, without a SessionLock.
  /// From now on, nothing more is written to the peer.
  void stop() noexcept { stopped_.store(true); }
  /// As stop(), because what the peer relies on could not be done.
  void stop_without_memory() noexcept {
    lacks_memory_.store(true);
    stop();
  }
  bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  /// True if nothing more goes to the peer or comes from it: the peer is gone or has closed its
  /// end, or stop() was called.
  bool broken() const noexcept { return stopped() || (slot_ && slot_->broken()); }

  /// True if the peer no longer writes into this rank's memory: not when this rank leaves or when
  /// the peer was only declared dead. Requires broken().
  bool peer_writes_no_more() const noexcept {
    return session_.peer.silent.load() || (!session_.peer.gone() && !stopped());
  }
  /// ok, or the reason why nothing can be exchanged any more.
  Status usable(const char* operation, const KeyStep& at) const noexcept;

  /// The memory for the next message, which post() and post_by_control() send.
  std::span<std::byte> draft() noexcept;
  /// Throws std::bad_alloc, as post_by_control() does.
  void post(std::span<const std::byte> message);
  /// Shares `chunk` with the peer first.
  void post_by_control(std::span<const std::byte> message, std::uint32_t chunk);
  /// Sends what had to wait.
  void flush() noexcept {
    if (is_held_up()) send_held_up();
  }
  /// Drops what had to wait.
  void drop() noexcept;
  /// True if messages have not reached the fabric yet.
  bool is_full() const noexcept { return !unsent_.empty(); }
  /// True if messages have not reached the peer yet.
  bool is_held_up() const noexcept { return puts_pending_ || !unsent_.empty(); }

 private:
  /// Why nothing can be exchanged any more. Requires broken().
  Status end_status() const noexcept;
  bool put_draft() noexcept;
  void send_held_up() noexcept;

  std::atomic<bool> stopped_{false};
  std::atomic<bool> lacks_memory_{false};
  bool puts_pending_ = false;
  std::shared_ptr<detail::PutWriter> slot_;
  SessionContext& session_;
  std::shared_ptr<Storage> drafts_;  ///< a ring of messages, which pending puts read
  const std::uint32_t chunk_;
  std::size_t next_draft_ = 0;
  std::vector<Tensor> draft_tensors_;
  std::deque<std::vector<std::byte>> unsent_;
};

}  // namespace weft::p2p::rendezvous
