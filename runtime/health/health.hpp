// What this rank thinks of the others' lives.
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

/// Judges silence of ranks on other hosts, and looks whether those of this host are stopped: at the
/// next that run, as one goes round, and at all that others have found stopped. What it thinks is
/// shown on the stats segment. Progress thread only, but for the constructor.
class Health final : public p2p::Liveness {
 public:
  /// The other three must outlive it.
  Health(const Config& config, p2p::LocalRank& local, p2p::Mesh& mesh, Membership& membership);
  ~Health() override;
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  /// Once connected: looks after this host's processes from now on. `progress` runs this call.
  void watch_host(p2p::ProgressThread& progress);
  /// Another rank of this host has found one that does not run.
  void on_message(std::span<const std::byte> bytes);

  bool is_dead(int rank, std::chrono::nanoseconds silence) override;
  void saw_end(int rank) override;
  void given_up_by(int rank, const std::string& why) override;
  void peer_status_known(int rank) override;

 private:
  /// A process of this host that is not this one.
  struct Neighbour {
    int rank;
    int periods = 0;        ///< that it has been stopped for
    std::uint64_t ran = 0;  ///< os::time_run() at the last look at it stopped
    int remembered = 0;     ///< periods for which it is looked at, and this is kept:
    std::string was{};      ///< what it was when it did not run
  };

  void look(std::uint64_t expired);
  /// Whether it runs.
  bool look_at(Neighbour& neighbour);
  void tell_others_of(int rank);
  void show(int rank, PeerHealth health, const std::string& condition);

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  Membership& membership_;
  const Patience patience_;
  std::vector<Neighbour> neighbours_;  ///< from this rank on, round the host's
  std::vector<bool> given_up_by_;      ///< ranks that have declared this one dead
  std::unique_ptr<p2p::Timer> timer_;
};

}  // namespace weft::detail
