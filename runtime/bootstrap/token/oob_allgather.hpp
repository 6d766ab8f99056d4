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

/// What each rank said, by rank.
using Contributions = std::vector<std::vector<std::byte>>;

/// One rank's end. Its calls throw Error(timeout | bootstrap), which names the ranks at fault; the
/// others get the same line from rank 0. One thread at a time.
class OobAllgather {
 public:
  static constexpr std::size_t kMaxContribution = 4096;  ///< bytes that a rank may say at a time

  struct Setup {
    int rank = 0;
    int size = 1;
    JobAddress address;
    p2p::Identity::Secret key{};  ///< by the token
  };

  virtual ~OobAllgather() = default;
  /// Every rank calls it as often as the others.
  virtual Contributions gather(std::span<const std::byte> own, Deadline deadline) = 0;
};

/// Rank 0's; returns when all ranks have come. `log` must outlive it.
std::unique_ptr<OobAllgather> serve_oob_allgather(const OobAllgather::Setup& setup,
                                                  const Config& config, Log& log,
                                                  Deadline deadline);
/// Another rank's; returns when rank 0 has let it in.
std::unique_ptr<OobAllgather> connect_oob_allgather(const OobAllgather::Setup& setup,
                                                    Deadline deadline);

}  // namespace weft::bootstrap
