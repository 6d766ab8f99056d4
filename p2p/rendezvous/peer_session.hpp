// The session of a rendezvous between this rank and one peer, in both directions.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/rendezvous/message_inbox.hpp"
#include "p2p/rendezvous/message_outbox.hpp"
#include "p2p/rendezvous/receiver_end.hpp"
#include "p2p/rendezvous/sender_end.hpp"
#include "p2p/rendezvous/session_context.hpp"
#include "p2p/rendezvous/totals.hpp"

namespace weft::p2p::rendezvous {

/// Messages travel through one slot in each direction; completions through the receiver's words.
/// Threads inside the rendezvous take turns: a turn handles arrived messages and answers what can
/// be answered, and never waits. A SessionLock guards everything, except where noted.
class PeerSession {
 public:
  PeerSession(LocalRank& local, Mesh& mesh, SlotTable& slots, Peer& peer,
              const RendezvousSpec& spec, const std::string& shared_name, Totals& totals);

  // Opening: call in this order, on one thread.
  /// Creates the inbox slot. Throws what SlotTable::expose() throws.
  void expose() { inbox_.expose(); }
  /// Makes the memory that later messages refer to known to the peer. Progress thread.
  Status share() noexcept;
  /// Attaches to the peer's inbox. Throws what SlotTable::attach() throws.
  void attach(Deadline deadline);
  void send_hello() noexcept;
  /// True once the peer's hello has arrived, which means that the peer has attached too.
  bool met() const noexcept { return met_.load(std::memory_order_acquire); }

  // Any thread, without holding a SessionLock.
  Peer& peer() const noexcept { return context_.peer; }
  /// True if a turn would find something to do.
  bool wants_turn() const noexcept;
  /// Takes a turn unless another thread holds the session; that thread then takes another one.
  void try_turn() noexcept;
  /// True if nothing more comes from the peer: it is gone or has closed its end, or this rank
  /// leaves.
  bool broken() const noexcept { return outbox_.broken(); }
  /// Queues a message that came on the control channel. Progress thread.
  void on_control(std::span<const std::byte> bytes);
  void report(std::vector<EdgeReport>& edges) const { context_.report(edges); }
  Status failure(Code code, const char* operation, const KeyStep& at, std::string_view message,
                 std::string_view hint) const noexcept {
    return context_.failure(code, operation, at, message, hint);
  }

  /// Holds the session. The destructor handles what arrived meanwhile and wakes waiting threads.
  class SessionLock {
   public:
    explicit SessionLock(PeerSession& session) noexcept;
    ~SessionLock();
    SessionLock(const SessionLock&) = delete;
    SessionLock& operator=(const SessionLock&) = delete;

   private:
    PeerSession& session_;
  };

  // With a SessionLock held.
  /// Runs `act`, a part of the protocol. Without memory for it the session ends, since the peer
  /// relies on what was to be done; then usable() says so.
  template <typename Act>
  void run(const Act& act) noexcept {
    try {
      act();
    } catch (const std::bad_alloc&) {
      outbox_.stop_without_memory();
      context_.changed = true;
    }
  }
  SenderEnd& sender() noexcept { return sender_; }
  ReceiverEnd& receiver() noexcept { return receiver_; }
  void work() noexcept;
  /// ok, or the reason why nothing can be exchanged any more.
  Status usable(const char* operation, const KeyStep& at) const noexcept {
    return outbox_.usable(operation, at);
  }
  /// Stops matching offers, and cancels the requests under way.
  void begin_close() noexcept;
  /// Called when this rank leaves: nothing more is written to the peer.
  void stop() noexcept { outbox_.stop(); }
  /// True while memory is lent to the peer's puts or to this rank's.
  bool has_lent() const noexcept { return receiver_.live() != 0 || sender_.under_way() != 0; }

 private:
  void take_turn();
  void read();
  void handle(std::span<const std::byte> bytes);
  void on_hello(const Hello& hello);
  void end();
  void settle() noexcept;
  void unlock() noexcept;

  SessionContext context_;

  std::mutex mutex_;
  std::atomic<bool> again_{false};  ///< another thread found the session held
  std::atomic<bool> needs_turn_{false};
  std::atomic<bool> open_{false};
  std::atomic<bool> met_{false};
  std::atomic<bool> ended_{false};
  TotalsShare share_;

  // The destructors need this order: the sender's waits for puts, the last ones close the slots.
  MessageInbox inbox_;
  MessageOutbox outbox_;
  ReceiverEnd receiver_;
  SenderEnd sender_;
};

}  // namespace weft::p2p::rendezvous
