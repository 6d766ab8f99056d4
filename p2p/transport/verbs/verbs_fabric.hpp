// Reaching ranks by RDMA: queue pairs between every two of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/verbs/cm/cm_connector.hpp"
#include "p2p/transport/verbs/rails.hpp"
#include "p2p/transport/verbs/verbs_channel.hpp"
#include "p2p/transport/wireup/connector.hpp"

namespace weft::p2p::verbs {

/// Two ranks meet by the connector, tell each other their queue pairs, ready them (by themselves,
/// or by the connection manager), and say when they are ready: when they join, or, in a job of more
/// than WEFT_MESH_EAGER ranks, when either has something to say to the other for the first time.
/// The connection stays: its end is how the death of a rank is noticed that has nothing under way.
/// A rank reaches itself by a queue pair connected to itself.
class VerbsFabric final : public Fabric, private ConnectorEvents {
 public:
  /// All must outlive it; `progress` is the thread that `local` posts to. `verbs` may be null: the
  /// fabric reaches no rank then, because of `why_not`.
  VerbsFabric(LocalRank& local, ProgressThread& progress, FabricEvents& events,
              const Config& config, std::shared_ptr<Verbs> verbs, std::string why_not);
  /// The progress thread must have stopped.
  ~VerbsFabric() override;

  FabricKind kind() const noexcept override { return FabricKind::verbs; }
  Reach reaches(const RankAddress& own, const RankAddress& peer) const override;
  void listen(RankAddress& own) override;
  void open(const std::vector<RankAddress>& job) override;
  void connect(int rank) override;
  bool fence(int rank) override;
  bool is_equipped() const noexcept override { return rails_ != nullptr; }
  PeerCost peer_cost() const noexcept override;
  void drain() noexcept override;

 private:
  struct Partner {
    int rank = -1;
    std::vector<VerbsAddress> ports;     ///< the peer's, the nearest first
    std::unique_ptr<VerbsChannel> made;  ///< until it is the mesh's
    VerbsChannel* channel = nullptr;
    bool is_met = false;    ///< and has queue pairs
    bool is_ready = false;  ///< this end
    bool peer_is_ready = false;
    bool is_connected = false;
    bool has_ended = false;
    Status refusal;  ///< of a request by its NIC: the reason, unless the rank turns out to be dead
    Clock::time_point verdict_at;  ///< when it counts
  };

  // From the connector.
  void met(int rank) override;
  void said(int rank, std::span<const std::byte> message) override;
  void ended(int rank, bool orderly, const std::string& why) override;
  void short_of(const Error& error) override;

  Partner& partner(int rank) noexcept { return partners_[static_cast<std::size_t>(rank)]; }
  bool is_started() const noexcept { return rails_ != nullptr && rails_->is_started(); }
  void start_devices();
  void on_device_event(Rail& rail, ibv_qp* qp);
  void on_port(Rail& rail, bool up);
  void make_channel(Partner& partner);
  /// Connecting has failed for want of something here.
  void give_up(Partner& partner, const Error& error);
  std::unique_ptr<CmConnector> make_cm_connector();
  void on_queue_pairs(Partner& partner, const QueuePairsMessage& message);
  void on_given_up(Partner& partner, const GaveUpMessage& message);
  void on_ready(Partner& partner);
  void if_ready(Partner& partner);
  void take_messages(Partner& partner);
  void poll();
  void lose(Partner& partner, const Status& why);
  void on_refused(Partner& partner, const Status& why);
  void poll_partner(Partner& partner);

  LocalRank& local_;
  ProgressThread& progress_;
  FabricEvents& events_;
  const std::shared_ptr<Verbs> verbs_;
  const VerbsOptions options_;
  const std::chrono::nanoseconds init_timeout_;
  std::string why_not_;
  std::unique_ptr<Rails> rails_;  ///< null: there is no port
  std::optional<VerbsRank> shared_;
  std::unique_ptr<CmConnector> cm_connector_;  ///< null: the connection manager is not used
  std::unique_ptr<Timer> kicks_;               ///< since there are completion queues
  Connector connector_;
  FirstUse first_use_;
  std::vector<Partner> partners_;  ///< by rank
  AdoptedMemory::Listener given_back_;
};

}  // namespace weft::p2p::verbs
