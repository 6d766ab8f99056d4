// Out-of-band allgather of a job without a launcher: each rank connects to rank 0 at a known
// address, and rank 0 sends every rank the contributions of all.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "runtime/bootstrap/token/job_address.hpp"
#include "weft/deadline.hpp"

namespace weft::bootstrap {

/// The contributions of all ranks, by rank.
using Contributions = std::vector<std::vector<std::byte>>;

/// One rank's end of the allgather. Throws Error(timeout | bootstrap), which names the ranks at
/// fault; rank 0 sends the same line to all others. Not thread-safe.
class OobAllgather {
 public:
  static constexpr std::size_t kMaxContribution = 4096;  ///< bytes of one rank per gather()

  struct Setup {
    int rank = 0;
    int size = 1;
    JobAddress address;
    p2p::Identity::Secret key{};  ///< derived from the token
  };

  virtual ~OobAllgather() = default;
  /// Contributes `own` and returns the contributions of all ranks. Collective: every rank calls it
  /// equally often.
  virtual Contributions gather(std::span<const std::byte> own, Deadline deadline) = 0;
  /// Connections that rank 0 rejected until all ranks had arrived.
  virtual std::uint64_t rejected_connections() const noexcept { return 0; }
};

/// Rank 0's end. Returns when all ranks have arrived. `log` must outlive the object.
std::unique_ptr<OobAllgather> serve_oob_allgather(const OobAllgather::Setup& setup,
                                                  const Config& config, Log& log,
                                                  Deadline deadline);
/// The end of any other rank. Returns when rank 0 has accepted this rank.
std::unique_ptr<OobAllgather> connect_oob_allgather(const OobAllgather::Setup& setup,
                                                    Deadline deadline);

}  // namespace weft::bootstrap
