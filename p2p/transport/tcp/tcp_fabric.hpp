// Reaching ranks over TCP: for hosts that have no RDMA between them.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/tcp/sockets.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"
#include "p2p/transport/tcp/terms.hpp"
#include "p2p/transport/wireup/connector.hpp"

namespace weft::p2p::tcp {

/// Two ranks meet by the connector, which then brings a connection for data for each rail; when
/// they join, or, in a job of more than WEFT_MESH_EAGER ranks, when either has something to say to
/// the other for the first time. The connector's own connection shows when the other end goes. A
/// rank reaches itself by a pair of Unix sockets.
class TcpFabric final : public Fabric, private ConnectorEvents {
 public:
  /// All must outlive it; `progress` is the thread that `local` posts to. `most_rails`: where
  /// WEFT_RAILS is auto, to each peer; there are not descriptors for more.
  TcpFabric(LocalRank& local, ProgressThread& progress, FabricEvents& events, const Config& config,
            int most_rails);

  FabricKind kind() const noexcept override { return FabricKind::tcp; }
  Reach reaches(const RankAddress& own, const RankAddress& peer) const override;
  void listen(RankAddress& own) override;
  void open(const std::vector<RankAddress>& job) override;
  void connect(int rank) override;
  bool fence(int rank) override;
  void drain() noexcept override;

 private:
  struct Partner {
    bool has_rails_by_network() const noexcept {
      return terms && terms->by_networks != 0 && terms->rails > 1;
    }

    int rank = -1;
    bool is_here = false;              ///< on this host
    std::unique_ptr<TcpChannel> made;  ///< until it is the mesh's
    TcpChannel* channel = nullptr;
    std::optional<Terms> terms;           ///< agreed with it
    std::map<int, DataConnection> rails;  ///< until all are there
    bool is_connected = false;
    bool has_ended = false;
    /// The data's end or the connector's word of it has come, and the other not yet.
    enum class Awaited : std::uint8_t { word, data };
    std::optional<Status> ending;
    Awaited awaited = Awaited::word;
    Clock::time_point ending_until;
  };

  // From the connector.
  void met(int rank) override;
  void said(int rank, std::span<const std::byte> message) override;
  void brought(int rank, DataConnection connection) override;
  void unanswered(int rank, int rail, const std::string& why) override;
  bool heard_otherwise(int rank) override;
  void ended(int rank, bool orderly, const std::string& why) override;
  void silent(int rank, const std::string& why) override;
  void short_of(const Error& error) override;

  Partner& partner(int rank) noexcept { return partners_[static_cast<std::size_t>(rank)]; }
  void start();
  void if_complete(Partner& partner);
  void up(Partner& partner, std::vector<Pipe> rails);
  void renew(Partner& partner, DataConnection connection);
  Pipe pipe_of(const Partner& partner, DataConnection connection) const;
  // fabric_rails.cpp
  void on_rail(Partner& partner, const RailEvent& event);
  void check_rails();
  /// How often rails are checked for silence.
  static constexpr std::chrono::milliseconds kRailCheck{50};
  void tell_rails(const Partner& partner);
  std::vector<std::vector<IpAddress>> shared_with(int rank, const Terms& theirs) const;
  /// The host's first rank, once, as soon as it matters.
  void tell_of_congestion(const Partner& partner);
  /// Each one once.
  void tell_of_addresses_of_both(const Partner& partner);
  void agree(Partner& partner, const Terms& theirs);
  void connect_to_itself(Partner& partner);
  void take_messages(Partner& partner);
  void on_broke(Partner& partner, bool ended, const Status& why);
  void end_soon(Partner& partner, const Status& why, Partner::Awaited awaited);
  void end_those_that_are_due();
  void lose(Partner& partner, const Status& why);

  LocalRank& local_;
  ProgressThread& progress_;
  FabricEvents& events_;
  Terms terms_;  ///< of this rank
  const std::optional<std::chrono::nanoseconds> dead_after_;
  std::string why_not_;
  ConnectorAddress listens_at_;
  bool has_told_of_descriptors_ = false;
  std::vector<IpAddress> told_of_both_;
  bool tells_of_congestion_ = false;  ///< it is its host's first rank, and has not told yet
  Connector connector_;
  FirstUse first_use_;
  std::optional<Sockets> sockets_;  ///< once a peer is reached by this fabric
  std::optional<TcpRank> shared_;
  Timer endings_;
  std::optional<Timer> rails_;  ///< for paths that have several
  Clock::time_point rails_checked_;
  std::mutex channels_mutex_;  ///< guards the channels of partners_ against who gives memory back
  std::vector<Partner> partners_;  ///< by rank
  AdoptedMemory::Listener given_back_;
};

}  // namespace weft::p2p::tcp
