// Every slot end of this rank, and the control messages about them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/closed_names.hpp"
#include "p2p/slot/published/publisher.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/slot/put/owner.hpp"
#include "p2p/slot/put/writer.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::p2p {

class SlotTable {
 public:
  SlotTable(LocalRank& local, Mesh& mesh);
  ~SlotTable();

  // Any application thread.
  /// `memory`: where the buffers lie; empty: in the arena.
  std::shared_ptr<detail::PutOwner> expose(const SlotSpec& spec, const Tensor& memory,
                                           Notify notify = Notify::optional);
  std::shared_ptr<detail::Publisher> expose(const PublishedSpec& spec);
  /// With `take_declared` only the name is compared.
  std::shared_ptr<detail::PutWriter> attach(int owner, const SlotSpec& asked, bool take_declared,
                                            Deadline deadline);
  std::shared_ptr<detail::VersionReader> attach(int owner, const PublishedSpec& asked,
                                                bool take_declared, Deadline deadline);
  /// Asks `owner` for its slot and returns at once. The answer comes once the slot is exposed, and
  /// lies in the end's answer(). detach() also ends an end that has no answer yet. Throws Error.
  std::shared_ptr<detail::PutWriter> begin_attach(int owner, const SlotSpec& asked);
  void close(std::shared_ptr<detail::ExposedSlot> slot) noexcept;
  void close(const detail::ExposedSlot& slot) noexcept;
  void detach(std::shared_ptr<detail::RemoteEnd> remote) noexcept;
  void detach(const detail::RemoteEnd& remote) noexcept;
  std::vector<EdgeReport> edges() const;
  /// Before this rank tells that it leaves: waits until its GPUs write into no slot of others, for
  /// a limited time. Returns whether they may still do.
  bool end_copies() noexcept;
  /// Once progress has stopped: waits for what is under way. Memory that peers may still reach is
  /// never given back.
  void end() noexcept;

  // The progress thread.
  void on_message(Peer& peer, std::span<const std::byte> bytes);
  void on_gone(Peer& peer);
  /// The rank leaves: puts that are still pending will not be put.
  void drop_pending();
  /// Moves the puts that were pending and have got a credit.
  void serve_pending();
  /// Whether tensors have come, since the last time, that rang no bell.
  bool came_silently();

 private:
  struct WaitingAttach {  ///< for a slot that is not exposed yet
    Peer* peer;
    AttachMessage message;
  };
  /// The state that `make` makes for a new id, once the name is known to be free.
  template <typename State, typename Make>
  std::shared_ptr<State> add_slot(const Contract& contract, const Make& make);
  template <typename State, typename Spec>
  std::shared_ptr<State> add_remote(int owner, const Spec& asked, bool take_declared,
                                    Deadline deadline);
  /// `until`: when it gives up to wait for the end of an earlier end's copies.
  void ask(detail::RemoteEnd& state, const std::string& name, Deadline until);
  /// Progress thread: whether this rank has still to tell the peer that an end of that slot is
  /// gone.
  bool is_detach_due(const Peer& peer, const std::string& name);
  void await_answer(const std::shared_ptr<detail::RemoteEnd>& state, const std::string& name,
                    Deadline deadline);
  /// Progress thread: gives up an end that has no answer yet.
  void withdraw(detail::RemoteEnd& state);
  /// Progress thread: tells the owner that the end is gone, now or once no copy is under way.
  void say_detached(detail::RemoteEnd& remote);
  void check_memory(const SlotSpec& spec, const Tensor& memory) const;
  void on_attach(Peer& peer, const AttachMessage& message);
  void decide(Peer& peer, detail::ExposedSlot& slot, const AttachMessage& message);
  void on_detach(Peer& peer, const DetachMessage& message);
  void count_waiting();
  void retry_waiting(const std::string& name);
  void end_quarantine(std::uint64_t slot_id);
  std::shared_ptr<detail::ExposedSlot> slot(std::uint64_t id) const;
  std::shared_ptr<detail::RemoteEnd> remote(std::uint64_t id) const;
  /// Once nothing that it has put is under way any more.
  void forget_remote(std::uint64_t id);

  LocalRank& local_;
  Mesh& mesh_;
  mutable std::mutex mutex_;  ///< guards the tables below, never held while anything is waited for
  std::map<std::string, std::shared_ptr<detail::ExposedSlot>> by_name_;
  ClosedNames closed_;
  std::unordered_map<std::uint64_t, std::shared_ptr<detail::ExposedSlot>> slots_;
  std::unordered_map<std::uint64_t, std::shared_ptr<detail::RemoteEnd>> remotes_;
  std::uint64_t next_id_ = 1;
  std::vector<std::shared_ptr<detail::ExposedSlot>> asked_;  ///< serve(); the progress thread's
  std::multimap<std::string, WaitingAttach> waiting_;        ///< the progress thread's
  std::size_t waiting_count_ = 0;                            ///< of them; guarded by mutex_
  bool has_ended_ = false;
};

}  // namespace weft::p2p
