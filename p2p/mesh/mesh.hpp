// This rank's peers: their channels, and which of them are alive.
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

/// The all-to-all mesh of a job's ranks. Order of use: address() before the bootstrap fence,
/// connect() with the addresses of all ranks, then messages and peer_status() until
/// announce_leave(). Each peer is reached by the first fabric that can reach it and that
/// WEFT_FABRIC allows.
class Mesh final : private FabricEvents {
 public:
  using OnMessage = std::function<void(Peer&, std::span<const std::byte>)>;
  using OnGone = std::function<void(Peer&)>;

  /// `on_message` receives messages that are not the mesh's own. `on_gone` is called once for each
  /// peer that has left or failed and can no longer write to this rank. Both run on the progress
  /// thread.
  Mesh(LocalRank& local, const MakeFabrics& make_fabrics, OnMessage on_message, OnGone on_gone);
  /// Requires that progress has stopped.
  ~Mesh() override;

  /// Makes every fabric listen, and returns this rank's address.
  RankAddress address();
  /// Connects to every rank. Returns when each peer is connected or is known to connect on first
  /// use. Throws Error: unreachable (names the ranks and the reasons), peer_failed, timeout (names
  /// the missing ranks), bootstrap.
  void connect(std::vector<RankAddress> addresses, Deadline deadline);
  /// Tells every connected peer that this rank leaves, and later each peer that connects
  /// afterwards. `gpu_works`: a GPU of this rank may still write into memory of theirs.
  void announce_leave(bool gpu_works = false);
  /// Tells every peer that this process is about to end by `signal` or, if `signal` is 0, by
  /// exit(`status`). Progress thread.
  void announce_end(int signal, int status);
  /// Waits until every peer that this rank was connected to is gone. A timeout names those that are
  /// not.
  Status wait_until_alone(Deadline deadline) noexcept;

  Peer& peer(int rank) noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const noexcept { return *peers_[static_cast<std::size_t>(rank)]; }
  /// True if any peer's puts may carry their sequence word at the end of the data
  /// (Channel::tails_up_to).
  bool has_tails() const noexcept { return has_tails_.load(std::memory_order_relaxed); }
  /// Number of peers that have left or failed; 0 lets a wait skip peer_status().
  std::uint32_t gone_count() const noexcept { return gone_.load(std::memory_order_acquire); }
  /// Fails all operations that need `rank` from now on and fences the rank. Memory that the rank
  /// could write stays unused until the fence holds. Any thread. Throws Error(bad_argument) if
  /// `rank` is this rank or not in the job.
  void declare_dead(int rank, std::string why);
  /// Like declare_dead(), but takes effect at once. Progress thread.
  void give_up(int rank, std::string why) { fail_and_fence(peer(rank), std::move(why)); }
  /// Excludes this rank from the job: every operation with a peer fails with `why`. Progress
  /// thread.
  void exclude(const Status& why);
  /// Fails operations that need `rank` with `why`. Progress thread.
  void fail(int rank, const Status& why);
  /// Marks `ranks` as settled: this rank has agreed to go on without them. Later actions of this
  /// rank, its leave above all, are not attributed to them. Progress thread.
  void settle(std::span<const int> ranks);
  /// Throws Error(bad_argument) if the job has no such rank.
  void check_ranks(std::span<const int> ranks, const char* operation) const;
  /// ok while `rank` is alive; peer_failed or peer_left otherwise. If a rank left because another
  /// one failed, reports that other rank's failure.
  Status peer_status(int rank) const noexcept;
  /// The status of an operation whose path to `rank` broke with `why`. Waits for peer_status(),
  /// which says more than the path does, until `deadline` and for 1 s at most. Any thread; within a
  /// task of the progress thread only with a deadline that has passed: then it does not wait.
  Status disconnected(int rank, const Status& why, Deadline deadline) const noexcept;
  /// peer_failed with the rank that failed first among those not settled; ok while there is none.
  Status first_failure() const noexcept;
  /// Hint text "perhaps because rank 1 ..." with the rank that failed first or, if none failed, the
  /// first that called exit() with a nonzero status; empty if there is no such rank.
  std::string likely_cause() const noexcept;
  /// Status of the first of `ranks` that failed, else of the first that left, else ok.
  Status peer_status(std::span<const int> ranks, Needed needed = Needed::always) const noexcept;

  /// Sends to a connected peer; drops the message if the peer is gone. Progress thread.
  template <typename Message>
  void send(Peer& peer, const Message& message) {
    if (!peer.gone() && peer.channel) peer.channel->send(as_bytes(message));
  }
  /// Makes a chunk of this rank known to the peer before the next message to it. False if the
  /// peer's fabric can't. Progress thread.
  bool share(Peer& peer, std::uint32_t chunk) {
    return peer.gone() || !peer.channel || peer.channel->export_region(chunk);
  }

  std::vector<PathReport> paths() const;
  /// The reason why the rank can't be reached by RDMA; nullopt if it can.
  std::optional<std::string> why_no_rdma(int rank) const;
  /// " (it is stopped for 2.5 s)" for a rank that is slow or suspect, else empty. For the text of a
  /// timeout.
  std::string suspicion(int rank) const noexcept;

 private:
  // FabricEvents.
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
  /// The fabric's own answer, unless WEFT_FABRIC names another fabric.
  Reach reach(const Fabric& fabric, const RankAddress& address) const;
  static std::string text(const std::vector<Verdict>& verdicts);
  /// The verdicts of all fabrics, the one in use first.
  std::vector<Verdict> verdicts(const RankAddress& address) const;
  /// Logs how long connecting took and what each peer costs.
  void tell_cost(std::chrono::nanoseconds took) const;
  /// Logs once that ranks of other hosts are reached without RDMA.
  void tell_fallback() const;
  void send_close(Peer& peer);
  void quarantine(int rank, bool has_left) noexcept;
  void on_ending(Peer& peer, std::span<const std::byte> bytes);
  void no_longer_idle(Peer& peer) noexcept;
  void end(Peer& peer, PeerState state, const Cause& cause_of_end = {});
  /// The cause to report if this rank leaves or ends now.
  Cause cause() const noexcept;
  Cause known(const Cause& cause) const noexcept;
  /// Throws std::bad_alloc.
  Status describe_end(const Peer& peer, PeerState state) const;
  /// The status of a peer that left, `how`: closed, once this rank has left too.
  Status ended_in_order(const Peer& peer, const std::string& how) const;
  void note_cause(const Peer& peer) noexcept;
  /// Called when the peer is gone and can no longer write to this rank.
  void release(Peer& peer);
  void fail_and_fence(Peer& peer, std::string why);

  LocalRank& local_;
  OnMessage on_message_;
  OnGone on_gone_;
  RankAddress own_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;  ///< best first
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<int> joining_{0};  ///< peers neither connected nor gone
  std::atomic<std::uint32_t> gone_{0};
  std::atomic<std::uint32_t> idle_{0};  ///< peers that have yet to connect on first use
  bool excluded_ = false;              ///< the others go on without this rank; progress thread only
  bool ending_ = false;                ///< this process is about to end; progress thread only
  bool leaving_ = false;               ///< this rank has announced its leave; progress thread only
  bool gpu_works_ = false;             ///< as announced
  std::atomic<bool> has_left_{false};  ///< this rank's leave() has ended
  std::atomic<bool> has_tails_{false};
  std::atomic<int> first_failed_{-1};
  std::atomic<int> first_exited_{-1};  ///< called exit() with a nonzero status
  int first_exit_status_ = -1;         ///< progress thread only
  std::atomic<bool> join_failed_{false};
  Status join_error_;  ///< a resource shortage of this rank; set before join_failed_
};

}  // namespace weft::p2p
