// Judges whether the other ranks live.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "p2p/mesh/mesh.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/liveness.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/health/membership.hpp"
#include "runtime/health/patience.hpp"

namespace weft::detail {

/// Judges the silence of ranks on other hosts, and checks whether ranks of this host are stopped.
/// Each rank watches the next two running ranks of its host, in cyclic order, and all ranks that
/// others have found stopped. The results are shown in the stats segment. All functions but the
/// constructor run on the progress thread.
class Health final : public p2p::Liveness {
 public:
  /// `local`, `mesh` and `membership` must outlive the object.
  Health(const Config& config, p2p::LocalRank& local, p2p::Mesh& mesh, Membership& membership);
  ~Health() override;
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  /// Starts to watch the processes of this host. Call once connected, on the progress thread.
  void watch_host(p2p::ProgressThread& progress);
  /// Handles a suspicion: another rank of this host has found a stopped rank.
  void on_message(std::span<const std::byte> bytes);

  bool is_dead(int rank, std::chrono::nanoseconds silence) override;
  void saw_end(int rank) override;
  void given_up_by(int rank, const std::string& why) override;
  void peer_status_known(int rank) override;

 private:
  /// Another process of this host.
  struct Neighbour {
    int rank;
    int periods = 0;            ///< number of periods for which it has been stopped
    std::uint64_t ran = 0;      ///< os::time_run() at the last check that found it stopped
    int remembered = 0;         ///< periods for which the rank is still watched and `was` is kept
    std::string was{};          ///< its condition when it was last found not running
    bool stands_still = false;  ///< when it was last looked at
  };

  void look(std::uint64_t expired);
  /// Checks `neighbour`; true if it runs.
  bool look_at(Neighbour& neighbour);
  void tell_others_of(int rank);
  void show(int rank, PeerHealth health, const std::string& condition);

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  Membership& membership_;
  const Patience patience_;
  std::vector<Neighbour> neighbours_;  ///< of this host, in cyclic order after this rank
  std::vector<PeerHealth> silence_;    ///< by rank: what its silence alone says
  std::vector<bool> given_up_by_;      ///< ranks that have declared this one dead
  std::unique_ptr<p2p::Timer> timer_;
};

}  // namespace weft::detail
