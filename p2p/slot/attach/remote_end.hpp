// The other end of a slot of either kind: attach, detach and teardown.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/attach/attach_answer.hpp"
#include "p2p/slot/attach/contract.hpp"
#include "p2p/slot/attach/needed_ranks.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/slot/attach/use_gate.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::p2p {
class SlotTable;

/// Where a grant's parts lie, as the channel reaches them.
struct GrantedMemory {
  RemoteMemory lines;
  RemoteMemory buffers;
  RemoteMemory reader_words;
  RemoteMemory tails;
  RemoteMemory chunk_words;
};

/// How far an end that its application has let go of is from its end. The progress thread's.
struct Leaving {
  bool started = false;   ///< kept only until the owner has answered
  bool answered = false;  ///< kept only until no put is under way
  bool unsent = false;    ///< the owner is told once no copy is under way
};

}  // namespace weft::p2p

namespace weft::detail {

/// The common part of PutWriter and VersionReader. No virtual function of it is on the data path.
class RemoteEnd {
 public:
  virtual ~RemoteEnd() = default;
  RemoteEnd(const RemoteEnd&) = delete;
  RemoteEnd& operator=(const RemoteEnd&) = delete;

  // The progress thread.
  p2p::AttachMessage attach_message() const noexcept;
  std::uint32_t credit_chunk() const noexcept { return credit_block_.block().chunk; }
  /// Takes what the owner granted; a grant that makes no sense becomes a refusal.
  void granted(const p2p::AttachedMessage& message);
  void refused(Status why);
  p2p::Leaving& leaving() noexcept { return leaving_; }
  /// The owner has closed the slot: agrees, at once or when the last use ends.
  void owner_closed();
  bool owner_has_closed() const noexcept { return gate_.is_shut(); }
  /// The message for the owner when this end goes; empty if the owner has closed already.
  p2p::DetachMessage detach_message() const noexcept;
  /// Moves pending puts that have a credit. Returns whether some are still pending.
  virtual bool serve_pending() noexcept { return false; }
  /// WEFT_CHECK=flow: the owner says what it had let go when a put without a credit asked.
  virtual void flow_answered(const p2p::FlowAnswerMessage& /*answer*/) noexcept {}
  /// The owner says whether its GPU sees a page that this rank's has written.
  virtual void gpu_page_seen(const p2p::GpuPageSeenMessage& /*message*/) noexcept {}

  // Any thread.
  p2p::AttachAnswer& answer() noexcept { return answer_; }
  const p2p::AttachAnswer& answer() const noexcept { return answer_; }
  /// Whether no put is under way, once the application has let go of this end.
  virtual bool has_completed() noexcept { return true; }
  /// Whether a GPU of this rank still writes into the owner's memory.
  virtual bool is_copying() noexcept { return false; }
  /// This end goes: pending puts will not be put.
  virtual void drop_pending() noexcept { local_.strays.cut_off(id_); }
  /// The world goes: adopted memory that a live owner may still read is never given back, and what
  /// is under way is waited for.
  virtual void abandon() noexcept {}
  void show_closing() noexcept { row_.set_state(stats::EdgeState::closing); }
  virtual void also_needs(std::span<const int> ranks, Needed needed) { needs_.set(ranks, needed); }
  /// Whether a wait here can only fail.
  bool broken() const noexcept;
  EdgeReport report() const;
  p2p::Peer& owner() const noexcept { return owner_; }
  std::uint64_t id() const noexcept { return id_; }
  bool over() const noexcept { return local_.over(); }
  /// Before saying that nothing has come.
  void poll_arrivals() const noexcept { local_.waiter.catch_up(); }
  Status refusal(const char* operation) const noexcept {
    return local_.refusal(operation, asked_.name);
  }
  p2p::SlotTable& table() const noexcept { return table_; }

 protected:
  /// `asked`: what the caller expects; with take_declared only its name and writer count.
  RemoteEnd(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& table, p2p::Peer& owner,
            p2p::Contract asked, bool take_declared, std::uint64_t id);

  std::atomic<std::uint64_t>& credit_word() const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(credit_block_.data());
  }
  stats::WaitAbout about(stats::Operation operation, std::uint64_t sequence) const noexcept {
    return {.operation = operation, .peer = owner_.rank, .slot = id_, .sequence = sequence};
  }
  /// Why this end can't be used, or ok().
  Status usable(const char* operation) const noexcept;
  Status peer_failure(const char* operation) const noexcept;
  Status failure(Code code, const char* operation, std::string_view message,
                 std::string_view hint) const noexcept;
  static p2p::RemoteMemory at(p2p::RemoteMemory base, std::uint64_t offset) noexcept {
    return {base.address + offset, base.key};
  }

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& table_;
  p2p::Peer& owner_;
  const std::uint64_t id_;
  const p2p::Contract asked_;
  const bool take_declared_;
  p2p::OwnedBlock credit_block_;  ///< written by the owner: credits, or the newest version
  stats::EdgeRow row_;
  p2p::EdgeCounters& counters_;
  p2p::NeededRanks needs_;
  /// Why tensors are staged at this end; null: none was. A constant text.
  std::atomic<const char*> staged_because_{nullptr};
  std::atomic<bool> is_mapped_{false};  ///< puts go by one copy into the owner's GPU
  std::atomic<bool> by_nic_{false};     ///< a NIC reads or writes a GPU's memory for puts
  mutable p2p::UseGate gate_;           ///< shut when the owner has closed the slot
  /// A thread that lets go of this end names the slot while the progress thread takes the grant.
  std::atomic<std::uint64_t> slot_id_{0};
  std::uint64_t attachment_id_ = 0;

 private:
  /// Keeps what was granted, which makes sense. May throw Error or std::bad_alloc.
  virtual void take_grant(const p2p::AttachedMessage& message, const p2p::Contract& declared,
                          const p2p::GrantedMemory& memory) = 0;

  p2p::AttachAnswer answer_;
  p2p::Leaving leaving_;
};

}  // namespace weft::detail
