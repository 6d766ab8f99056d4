// The owner's end of a slot of either kind: attach, detach and teardown.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/attach/attachment.hpp"
#include "p2p/slot/attach/contract.hpp"
#include "p2p/slot/attach/needed_ranks.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::p2p {
class SlotTable;
}

namespace weft::detail {

/// The common part of PutOwner and Publisher. Nothing of it is on the data path. The progress
/// thread calls the first group of functions, any thread the second.
class ExposedSlot {
 public:
  virtual ~ExposedSlot() = default;
  ExposedSlot(const ExposedSlot&) = delete;
  ExposedSlot& operator=(const ExposedSlot&) = delete;

  /// Decides on an attach; fills `granted`, or returns why not.
  Status admit(p2p::Peer& peer, const p2p::AttachMessage& asked, p2p::AttachedMessage& granted);
  /// A remote end is gone. Its rank is told once its words will not be written any more. Returns
  /// false if that end has no attachment here.
  bool detach_peer(const p2p::Peer& peer, std::uint64_t remote_id) noexcept;
  /// The slot is closed: tells every remote end. Returns how many must agree.
  int begin_close();
  /// A remote end has agreed. Returns whether the memory is free now.
  bool agreed(const p2p::Peer& peer, std::uint64_t attachment_id) noexcept;
  /// Closed, and every remote end has agreed.
  bool is_free() const noexcept { return closed_ && to_agree_ == 0; }
  /// Forgets a dead peer's attachments. Returns whether, for a closed slot, the memory is free now.
  bool peer_gone(const p2p::Peer& peer) noexcept;
  virtual void count_quarantine(bool enters) noexcept = 0;
  /// The world goes: memory that a live peer may still write into is never given back.
  virtual void abandon() noexcept {}
  /// This end or the world goes, and streams wait no more.
  virtual void end_streams() noexcept {}
  /// The writer is held up for credits that were not worth reporting yet.
  virtual void credit_wanted(const p2p::Peer& /*peer*/, std::uint64_t /*remote_id*/) noexcept {}
  /// WEFT_CHECK=flow: the writer asks what was let go.
  virtual void flow_asked(p2p::Peer& /*peer*/, const p2p::FlowQuestionMessage& /*question*/) {}
  /// The writer has refused a put.
  virtual void put_refused(const p2p::Peer& /*peer*/, const p2p::PutRefusedMessage& /*message*/) {}
  /// For a slot on a GPU: the writer's way, or its question whether a page has come. Returns
  /// whether serve() is to be called.
  virtual bool gpu_way(p2p::Peer& /*peer*/, const p2p::GpuWayMessage& /*message*/) noexcept {
    return false;
  }
  /// Answers such a question. Returns whether the answer is still to come.
  virtual bool serve() noexcept { return false; }
  /// Whether the application's thread has asked, since the last call, for serve().
  bool take_wish() noexcept {
    return wants_serving_.load(std::memory_order_acquire) &&
           wants_serving_.exchange(false, std::memory_order_acq_rel);
  }
  /// Whether tensors have come, since the last call, that rang no doorbell.
  virtual bool came_silently() noexcept { return false; }

  /// The application has let go of this end; its peers keep it.
  void show_closing() noexcept { row_.set_state(stats::EdgeState::closing); }
  void also_needs(std::span<const int> ranks, Needed needed) { needs_.set(ranks, needed); }
  virtual EdgeReport report() const = 0;
  const std::string& name() const noexcept { return contract_.name; }
  std::uint64_t id() const noexcept { return id_; }
  bool over() const noexcept { return local_.over(); }
  /// Before saying that nothing has come.
  void poll_arrivals() const noexcept { local_.waiter.catch_up(); }
  Status refusal(const char* operation) const noexcept {
    return local_.refusal(operation, contract_.name);
  }
  p2p::SlotTable& table() const noexcept { return table_; }

 protected:
  ExposedSlot(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, p2p::Contract contract,
              std::uint64_t id);

  Status failure(Code code, const char* operation, std::string_view message,
                 std::string_view hint) const noexcept;
  Status not_shared(const p2p::Peer& peer) const;
  Result<p2p::RemoteMemory> resolve_credit_word(const Attachment& attachment,
                                                const p2p::AttachMessage& asked) const;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& table_;
  const p2p::Contract contract_;
  const std::uint64_t id_;
  stats::EdgeRow row_;
  p2p::EdgeCounters& counters_;
  p2p::NeededRanks needs_;
  Attachments attachments_;
  std::atomic<bool> wants_serving_{false};
  int to_agree_ = 0;     ///< the progress thread's
  bool closed_ = false;  ///< the progress thread's

 private:
  /// Makes an attachment whose contract fits, and says in `granted` where the slot lies.
  virtual Status grant(p2p::Peer& peer, const p2p::AttachMessage& asked,
                       p2p::AttachedMessage& granted) = 0;
  /// An attach was refused as a mismatch.
  virtual void refused(const Status& /*why*/) {}
  /// The attachment is active no more.
  virtual void ended(Attachment& /*attachment*/) noexcept {}
  /// Its rank has detached, and is told once the gate is drained.
  virtual void detached(Attachment& attachment) noexcept { attachment.gate.shut(); }
  virtual void closing() noexcept {}
};

}  // namespace weft::detail
