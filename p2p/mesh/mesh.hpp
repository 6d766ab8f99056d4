// Everybody this rank is connected to, and who of them still lives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "p2p/mesh/mesh_messages.hpp"
#include "p2p/mesh/peer.hpp"
#include "p2p/transport/address/rank_address.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/report.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

/// The all-to-all mesh. Order of use: address() for the bootstrap fence, connect() with
/// everybody's, then messages and peer status until leave(). Each peer is reached by the first
/// fabric that can and may.
class Mesh final : private FabricEvents {
 public:
  using OnMessage = std::function<void(Peer&, std::span<const std::byte>)>;
  using OnGone = std::function<void(Peer&)>;

  /// `on_message` gets what is not the mesh's own business, `on_gone` every peer that has left or
  /// failed and is silent; both on the progress thread.
  Mesh(LocalRank& local, const MakeFabrics& make_fabrics, OnMessage on_message, OnGone on_gone);
  /// Progress must have stopped.
  ~Mesh() override;

  /// Makes this rank ready to be connected to, by every fabric.
  RankAddress address();
  /// Connects to every rank; returns when all pairs of this rank are up, or known to come up when
  /// they are first used. Throws Error: unreachable
  /// (which ranks, and why), peer_failed, timeout (naming the missing ranks), bootstrap.
  void connect(std::vector<RankAddress> addresses, Deadline deadline);
  /// Tells every peer that this rank leaves, those too that connect to it later. Those that never
  /// do are not told.
  void announce_leave();
  /// Progress thread: tells every peer that this process is about to end, by `signal`, or by
  /// exit(status) if that is 0.
  void announce_end(int signal, int status);
  /// Waits until every peer is gone that this rank has been connected to; timeout names who is not.
  Status wait_until_alone(Deadline deadline) noexcept;

  Peer& peer(int rank) noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  /// Whether any peer's puts may have their words behind them (Channel::tails_up_to).
  bool has_tails() const noexcept { return has_tails_.load(std::memory_order_relaxed); }
  /// How many peers have left or failed: zero lets a wait skip asking for each.
  std::uint32_t gone_count() const noexcept { return gone_.load(std::memory_order_acquire); }
  /// Any thread: from now on operations that need the rank fail; it is fenced, and what it could
  /// write into stays unused until that is done.
  void declare_dead(int rank, std::string why);
  /// Progress thread: the same, at once.
  void give_up(int rank, std::string why) { fail_and_fence(peer(rank), std::move(why)); }
  /// Progress thread: this rank has no part in the job any more; every operation fails with `why`.
  void exclude(const Status& why);
  /// Progress thread: operations that need the rank fail with `why`, not this rank's.
  void fail(int rank, const Status& why);
  /// Progress thread: this rank has agreed to go on without these. What it does from now on, its
  /// leave above all, is not because of them.
  void settle(std::span<const int> ranks);
  /// Throws Error(bad_argument) for a rank that the job does not have.
  void check_ranks(std::span<const int> ranks, const char* operation) const;
  /// ok for a rank that lives; peer_failed or peer_left otherwise. A rank that left because another
  /// had failed is reported as that other's failure.
  Status peer_status(int rank) const noexcept;
  /// Any thread: what ended an operation that the path to the rank broke off with `why`. A rank's
  /// peer_status says more than its path, and is about to be known then.
  Status disconnected(int rank, const Status& why) const noexcept;
  /// peer_failed with the rank that failed first, of those that are not settled; ok while none has.
  Status first_failure() const noexcept;
  /// "perhaps because rank 1 ..." with the rank that failed first, or else called exit() with a
  /// status other than 0; empty while none has. For the hint of what may follow from that.
  std::string likely_cause() const;
  /// The first of `ranks` that has failed, else the first that has left, else ok.
  Status peer_status(std::span<const int> ranks, Needed needed = Needed::always) const noexcept;

  /// Progress thread: a message to a peer that is there; one that is gone gets none.
  template <typename Message>
  void send(Peer& peer, const Message& message) {
    if (!peer.gone() && peer.channel) peer.channel->send(as_bytes(message));
  }
  /// Progress thread: makes the peer know a chunk of this rank before the next message to it. False
  /// when its fabric can't.
  bool share(Peer& peer, std::uint32_t chunk) {
    return peer.gone() || !peer.channel || peer.channel->export_region(chunk);
  }

  std::vector<PathReport> paths() const;
  /// The reason why the rank can't be reached by RDMA; nullopt if it can.
  std::optional<std::string> why_no_rdma(int rank) const;
  /// " (it is stopped for 2.5 s)" for a rank that is slow or suspect, else nothing; for the text of
  /// a wait that ended without it.
  std::string suspicion(int rank) const;

 private:
  // From the fabrics.
  void connected(int rank, std::unique_ptr<Channel> channel) override;
  void reachable(int rank, std::unique_ptr<Channel> channel) override;
  void in_use(int rank) override;
  void message(int rank, std::span<const std::byte> bytes) override;
  void lost(int rank, const Status& why) override;
  void broken(int rank) override;
  void short_of(const Error& error) override;

  std::unique_ptr<Peer> meet(int rank, const RankAddress& address);
  struct Verdict {
    FabricKind fabric;
    bool usable = false;
    std::string reason;
  };
  /// The fabric's own answer, unless WEFT_FABRIC names another.
  Reach reach(const Fabric& fabric, const RankAddress& address) const;
  static std::string text(const std::vector<Verdict>& verdicts);
  /// Of every fabric, the one in use first.
  std::vector<Verdict> verdicts(const RankAddress& address) const;
  /// To the log: how long it took to connect, and what a peer costs.
  void tell_cost(std::chrono::nanoseconds took) const;
  /// To the log, once: that there is no RDMA where it might be expected.
  void tell_fallback() const;
  void send_close(Peer& peer);
  void on_ending(Peer& peer, std::span<const std::byte> bytes);
  void no_longer_idle(Peer& peer) noexcept;
  void end(Peer& peer, PeerState state, const Cause& cause_of_end = {});
  /// Of this rank's end, if it comes now.
  Cause cause() const noexcept;
  Cause known(const Cause& cause) const noexcept;
  void note_cause(const Peer& peer) noexcept;
  /// The peer is gone and silent.
  void release(Peer& peer);
  void fail_and_fence(Peer& peer, std::string why);

  LocalRank& local_;
  OnMessage on_message_;
  OnGone on_gone_;
  RankAddress own_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;  ///< the best first
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<int> joining_{0};  ///< peers that are neither connected nor gone yet
  std::atomic<std::uint32_t> gone_{0};
  std::atomic<std::uint32_t> idle_{0};  ///< peers that were never connected to
  bool ending_ = false;                 ///< the progress thread's: this process is
  bool leaving_ = false;                ///< the progress thread's: that was announced
  std::atomic<bool> has_tails_{false};
  std::atomic<int> first_failed_{-1};
  std::atomic<int> first_exited_{-1};  ///< with a status other than 0
  int first_exit_status_ = -1;         ///< the progress thread's
  std::atomic<bool> join_failed_{false};
  Status join_error_;  ///< this rank's own shortage; set before join_failed_
};

}  // namespace weft::p2p
