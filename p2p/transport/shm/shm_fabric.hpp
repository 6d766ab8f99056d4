// Reaching the ranks of this host: Unix sockets to meet, shared memory from then on.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/auth/pending_connections.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/shm/link.hpp"
#include "p2p/transport/shm/shm_channel.hpp"
#include "p2p/transport/shm/shm_messages.hpp"

namespace weft::p2p {

/// In a pair the higher rank connects, to an abstract Unix socket; connect and accept carry the
/// descriptors of both sides' memory. A peer's process is watched through its pidfd: its death is
/// seen at once, and what it had sent is read first.
class ShmFabric final : public Fabric {
 public:
  /// All three must outlive it; `progress` is the thread that `local` posts to.
  ShmFabric(LocalRank& local, ProgressThread& progress, FabricEvents& events);
  /// The progress thread must have stopped.
  ~ShmFabric() override;

  FabricKind kind() const noexcept override { return FabricKind::shm; }
  Reach reaches(const RankAddress& own, const RankAddress& peer) const override;
  void listen(RankAddress& own) override;
  void open(const std::vector<RankAddress>& job) override;
  void connect(int rank) override;
  /// The process is killed: it may be stopped in the middle of a copy.
  bool fence(int rank) override;
  void drain() noexcept override;

 private:
  /// A rank's side of the meeting.
  struct Partner {
    int rank = -1;
    RankAddress address;
    os::Fd pidfd;
    std::vector<std::unique_ptr<Link>> links;  ///< two to oneself, else one
    ShmChannel* channel = nullptr;             ///< the mesh's
  };

  void call(Partner& partner);
  void accept_pending();
  bool make_room(int error);
  void take_in(os::Fd socket);
  std::unique_ptr<Link> make_link(os::Fd socket);
  void call_again();
  void watch_process(Partner& partner);
  void on_end(Link& link);
  void drop_pending_connection(Link::Id id);
  void reject(Link& link, const std::string& reason);
  bool crowd_one_out(const PendingConnections::Limits& limits);
  os::Fd make_caller();
  void pause();
  void tick();

  void send_connect(Link& link, MessageType type, bool reaches);
  void share_stats(Link& link);
  void on_stats(const Partner& partner, std::vector<os::Fd> descriptors);
  void on_adopted(Partner& partner, std::span<const std::byte> bytes);
  void on_message(Link& link, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors);
  void on_wireup(Link& link, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors);
  /// Why the other end is not to be believed, or an empty string.
  std::string on_handshake(Link& link, std::span<const std::byte> bytes);
  std::string on_answer(Link& link, std::span<const std::byte> bytes);
  std::string on_connect(Link& link, std::span<const std::byte> bytes,
                         std::vector<os::Fd> descriptors);
  /// This process has no descriptors left for those that `rank` sent: joining fails by that.
  void lose_descriptors(int rank);
  std::string on_accept(Link& link, std::span<const std::byte> bytes,
                        std::vector<os::Fd> descriptors);
  void on_chunk(Partner& partner, std::span<const std::byte> bytes,
                std::vector<os::Fd> descriptors);
  void on_device_chunk(const Partner& partner, std::span<const std::byte> bytes,
                       std::vector<os::Fd> descriptors);
  /// Whether the kernel says the same of the other end as the rank itself did.
  std::string validate_process(const Link& link, int rank) const;
  void open_channel(Partner& partner, Link& link, const ConnectMessage& message,
                    std::vector<os::Fd> descriptors);

  LocalRank& local_;
  ProgressThread& progress_;
  FabricEvents& events_;
  Watched listener_;
  os::Fd unopened_;          ///< the listener, before the job is open
  const bool cross_memory_;  ///< WEFT_CROSS_MEMORY
  const std::uint64_t probe_ = kProbe;
  Identity identity_;
  std::vector<Partner> partners_;  ///< by rank; does not grow once the job is open
  std::set<pid_t> processes_;      ///< of this host's ranks
  Link::Id last_link_ = 0;
  /// Accepted, not yet introduced. A process of the job counts as having spoken there.
  PendingConnections pending_;
  struct PendingConnection {
    std::unique_ptr<Link> link;
    PendingConnections::Id place = 0;
  };
  std::map<Link::Id, PendingConnection>
      pending_connections_;           ///< in pending_, or on its way out of it
  std::set<int> uncalled_;            ///< ranks whose backlog was full
  Timer ticks_;                       ///< while there are unauthenticated clients or uncalled ranks
  bool paused_ = false;               ///< this process lacks descriptors
  AdoptedMemory::Listener released_;  ///< goes first, since it uses the others
};

}  // namespace weft::p2p
