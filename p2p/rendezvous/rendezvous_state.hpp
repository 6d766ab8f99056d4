// A rendezvous of this rank: a session with every rank, and the waiting.
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

  /// Throws Error(bad_argument) for a spec that can't be.
  RendezvousState(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& slots,
                  p2p::RendezvousTable& table, RendezvousSpec spec, std::string_view suffix,
                  std::span<const int> members);

  /// Meets every member. Throws what expose and attach throw.
  void open(Deadline deadline);

  // Application threads.
  Status send(int to, const KeyStep& at, const Tensor& tensor, Deadline deadline) noexcept;
  Status send_dead(int to, const KeyStep& at, Deadline deadline) noexcept;
  Status send_error(int to, const KeyStep& at, Code code, std::string_view text,
                    Deadline deadline) noexcept;
  Status send_encoded(int to, const KeyStep& at, const Codec& value, Deadline deadline) noexcept;
  bool lent(int to, const KeyStep& at) noexcept;
  Status serve(Deadline deadline) noexcept;
  Result<Received> recv(int from, const KeyStep& at, Deadline deadline) noexcept;
  std::vector<Result<Received>> recv(int from, std::span<const KeyStep> wanted, Deadline deadline);
  Status cancel(int from, const KeyStep& at) noexcept;

  /// The handle is gone. Nothing is answered from now on; returns whether all requests are answered
  /// too, so that the state may go.
  bool begin_close() noexcept;
  bool is_free() noexcept;

  // The progress thread.
  void on_control(int rank, std::span<const std::byte> bytes);
  /// Whether messages must be answered that no application thread looks for.
  bool wants_service() const noexcept;
  /// Whether turns are due that nobody is woken for.
  bool is_held_up() const noexcept { return totals_.held_up.load() > 0; }
  /// Lets every session that has something to do take a turn.
  void poll() noexcept;
  /// This rank leaves: no peer's memory is written from now on.
  void stop() noexcept;

  /// By which its members know it: a group has its own exchange of a name.
  const std::string& shared_name() const noexcept { return shared_name_; }
  p2p::RendezvousTable& table() const noexcept { return table_; }
  bool forked() const noexcept { return local_.forked(); }
  Status fork_refusal(const char* operation) const noexcept {
    return local_.fork_refusal(operation);
  }
  void report(std::vector<EdgeReport>& edges) const;

 private:
  Status refuse(const char* operation, int rank, const KeyStep& at) const noexcept;
  /// Of a member.
  PeerSession& with(int rank) noexcept { return *by_rank_[static_cast<std::size_t>(rank)]; }
  Status offer(int to, const KeyStep& at, p2p::rendezvous::Content& content,
               Deadline deadline) noexcept;
  Status not_fetched(PeerSession& session, const char* operation, std::string_view what) noexcept;
  void receive(int from, std::span<const KeyStep> wanted,
               std::span<p2p::rendezvous::Ticket> tickets, Deadline deadline) noexcept;
  /// `whom`: the rank waited for; -1: several.
  template <typename Ready, typename Broken, typename Whom>
  void wait(const Ready& ready, const Broken& broken, Deadline deadline, const Whom& whom) noexcept;
  /// On leaving a call: what is left to do is the progress thread's.
  void hand_over() noexcept;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& slots_;
  p2p::RendezvousTable& table_;
  const RendezvousSpec spec_;
  const std::string shared_name_;
  p2p::rendezvous::Totals totals_;
  std::vector<std::unique_ptr<PeerSession>> sessions_;  ///< with each member
  std::vector<PeerSession*> by_rank_;                   ///< null: no member
  std::atomic<int> waiting_{0};  ///< application threads that look for messages
};

}  // namespace weft::detail
