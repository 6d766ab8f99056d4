// A rendezvous of this rank: a session with every member, and the waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/rendezvous/peer_session.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/rendezvous.hpp"

namespace weft::p2p {
class RendezvousTable;
}

namespace weft::detail {

class RendezvousState {
 public:
  using PeerSession = p2p::rendezvous::PeerSession;

  /// Throws Error(bad_argument) if `spec` is invalid.
  RendezvousState(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& slots,
                  p2p::RendezvousTable& table, RendezvousSpec spec, std::string_view suffix,
                  std::span<const int> members);

  /// Opens a session with every member and returns when all have attached. Throws what
  /// SlotTable::expose() and attach() throw.
  void open(Deadline deadline);

  // Application threads.
  Status send(int to, const KeyStep& at, const Tensor& tensor, Deadline deadline) noexcept;
  Status send_dead(int to, const KeyStep& at, Deadline deadline) noexcept;
  Status send_error(int to, const KeyStep& at, Code code, std::string_view text,
                    Deadline deadline) noexcept;
  Status send_encoded(int to, const KeyStep& at, const Codec& value, Deadline deadline) noexcept;
  bool lent(int to, const KeyStep& at) noexcept;
  Status serve(Deadline deadline) noexcept;
  bool ready(int from, const KeyStep& at) noexcept;
  Result<Received> recv(int from, const KeyStep& at, Deadline deadline) noexcept;
  std::vector<Result<Received>> recv(int from, std::span<const KeyStep> wanted, Deadline deadline);
  Status cancel(int from, const KeyStep& at) noexcept;

  /// Called when the handle is destroyed: offers are no longer matched from now on. True if all
  /// requests are answered too, so that the state may be destroyed.
  bool begin_close() noexcept;
  bool is_free() noexcept;

  // Progress thread.
  void on_control(int rank, std::span<const std::byte> bytes);
  /// True if messages may need an answer while no application thread looks for them.
  bool wants_service() const noexcept;
  /// True if sessions have work that nothing rings the doorbell for.
  bool is_held_up() const noexcept { return totals_.held_up.load() > 0; }
  /// Lets every session that has work take a turn.
  void poll() noexcept;
  /// Called when this rank leaves: no peer's memory is written from now on.
  void stop() noexcept;

  /// The name by which its members know the rendezvous; each group has its own exchange of a name.
  const std::string& shared_name() const noexcept { return shared_name_; }
  p2p::RendezvousTable& table() const noexcept { return table_; }
  bool over() const noexcept { return local_.over(); }
  Status refusal(const char* operation) const noexcept { return local_.refusal(operation); }
  void report(std::vector<EdgeReport>& edges) const;

 private:
  /// Exposes and attaches what the sessions consist of.
  void meet(Deadline until);
  bool is_source_for(const p2p::Peer& peer, const Tensor& tensor) const noexcept;
  // By way of host memory (rendezvous_gpu.cpp).
  Status send_from_gpu(int to, const KeyStep& at, const Tensor& tensor, Deadline until) noexcept;
  /// Brings the tensors that have arrived to the GPU of the spec. True if none is on its way there.
  bool bring_to_gpu(PeerSession& session, std::span<p2p::rendezvous::Ticket> tickets) noexcept;
  /// The same until all are there, but not beyond the deadline.
  void await_gpu(PeerSession& session, std::span<const KeyStep> wanted,
                 std::span<p2p::rendezvous::Ticket> tickets, Deadline until) noexcept;
  Status refuse(const char* operation, int rank, const KeyStep& at) const noexcept;
  /// Throws std::bad_alloc.
  ErrorDetail why_refused(const char* operation, int rank, const KeyStep& at) const;
  /// The outcome of a request that has been waited for.
  Result<Received> finish(int from, const KeyStep& at, p2p::rendezvous::Ticket& ticket) noexcept;
  /// The session with a member.
  PeerSession& with(int rank) noexcept { return *by_rank_[static_cast<std::size_t>(rank)]; }
  Status offer(int to, const KeyStep& at, p2p::rendezvous::Content& content, Deadline deadline);
  Status not_fetched(PeerSession& session, const char* operation, std::string_view what);
  void receive(int from, std::span<const KeyStep> wanted,
               std::span<p2p::rendezvous::Ticket> tickets, Deadline deadline);
  /// `shown` fills the details and returns the wait, as tools see it.
  template <typename Ready, typename Broken, typename Shown>
  void wait(const Ready& ready, const Broken& broken, Deadline deadline,
            const Shown& shown) noexcept;
  /// `peer`: -1: several. `at` may be empty.
  stats::WaitAbout about(stats::WaitDetails& details, const char* operation, const KeyStep& at,
                         int peer) const noexcept;
  /// serve(), which waits for the ranks that have not fetched what was offered to them.
  stats::WaitAbout about_unfetched(stats::WaitDetails& details) const noexcept;
  /// Called when an application thread leaves: the progress thread does the remaining work.
  void hand_over() noexcept;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& slots_;
  p2p::RendezvousTable& table_;
  const RendezvousSpec spec_;
  const std::string shared_name_;
  p2p::rendezvous::Totals totals_;
  std::vector<std::unique_ptr<PeerSession>> sessions_;  ///< one per member
  std::vector<PeerSession*> by_rank_;                   ///< null: not a member
  std::atomic<int> waiting_{0};  ///< application threads that look for messages
};

}  // namespace weft::detail
