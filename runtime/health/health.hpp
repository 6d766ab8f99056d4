// What this rank thinks of the others' lives.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "p2p/connector/timer.hpp"
#include "p2p/liveness.hpp"
#include "p2p/local_rank.hpp"
#include "p2p/mesh/mesh.hpp"
#include "runtime/health/membership.hpp"
#include "runtime/health/patience.hpp"

namespace weft::detail {

/// Judges silence of ranks on other hosts, and looks whether those of this host are stopped. What
/// it thinks is shown on the status board. Progress thread only, but for the constructor.
class Health final : public p2p::Liveness {
 public:
  /// The other three must outlive it.
  Health(const Config& config, p2p::LocalRank& local, p2p::Mesh& mesh, Membership& membership);
  ~Health() override;
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  /// Once connected: looks after this host's processes from now on. `progress` runs this call.
  void watch_host(p2p::ProgressThread& progress);

  bool is_dead(int rank, std::chrono::nanoseconds silence) override;
  void saw_end(int rank) override;
  void given_up_by(int rank, const std::string& why) override;
  void fate_known(int rank) override;

 private:
  /// A process of this host that is not this one.
  struct Neighbour {
    int rank;
    int periods = 0;     ///< that it has been stopped for
    int remembered = 0;  ///< periods for which that is kept:
    std::string was{};   ///< what it was when it did not run
  };

  void look(std::uint64_t expired);
  void look_at(Neighbour& neighbour);
  void show(int rank, PeerHealth health, const std::string& condition);

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  Membership& membership_;
  const Patience patience_;
  std::vector<Neighbour> neighbours_;
  std::vector<bool> given_up_by_;  ///< ranks that have declared this one dead
  std::unique_ptr<p2p::Timer> timer_;
};

}  // namespace weft::detail
