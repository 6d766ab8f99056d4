// Exchanges data between ranks before they are connected: put, fence, get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "weft/deadline.hpp"

namespace weft {

/// One rank's access to the out-of-band exchange of the job. put(), fence() and get() throw
/// Error(bootstrap | timeout).
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Number of ranks on this rank's host, this rank included.
  virtual int local_size() const noexcept = 0;
  /// Index of this rank among the ranks of its host, from 0.
  virtual int local_rank() const noexcept = 0;

  /// Contributes this rank's `value`, which is copied. Call once, before fence().
  virtual void put(std::span<const std::byte> value) = 0;
  /// Returns when every rank has called put(). The error names the ranks that have not.
  virtual void fence(Deadline deadline) = 0;
  /// Returns the value of `rank`. Call after fence().
  virtual std::vector<std::byte> get(int rank) = 0;

  /// Name of the job for messages and file names; empty if the job has no name.
  virtual std::string job() const { return {}; }
  /// Process whose end means that the job's launcher is gone; 0 if there is no such process.
  virtual int launcher_pid() const noexcept { return 0; }
  /// Number of open descriptors that fence() closes.
  virtual int descriptors_until_fence() const noexcept { return 0; }
  /// Connections that were no rank of the job, each logged already.
  virtual std::uint64_t rejected_connections() const noexcept { return 0; }
};

/// A world of one rank.
std::unique_ptr<Bootstrap> make_alone_bootstrap();
/// The launcher's PMIx server. Throws Error(bootstrap).
std::unique_ptr<Bootstrap> make_pmix_bootstrap();
/// No launcher: rank 0 listens at WEFT_ADDR for the others. Returns when all ranks have arrived.
/// `token`: in place of the file WEFT_TOKEN_FILE, unless empty. Throws Error(bad_config | bootstrap
/// | timeout).
std::unique_ptr<Bootstrap> make_token_bootstrap(const Config& config, std::string_view token = {});
/// Refuses values of WEFT_RANK, WEFT_SIZE, WEFT_ADDR and WEFT_TOKEN_FILE that
/// make_token_bootstrap() would refuse; any of them may be missing. Throws Error(bad_config).
void check_token_settings(const Config& config);
/// As make_token_bootstrap(), which a fork of a rank is refused: Error(forked).
std::unique_ptr<Bootstrap> join_by_token(const Config& config, std::string_view token);
/// Chooses by WEFT_BOOTSTRAP and by the environment that the launcher has set. Throws
/// Error(bootstrap) if a launcher started several processes without PMIx: each would be a world of
/// its own.
std::unique_ptr<Bootstrap> choose_bootstrap(const Config& config);

}  // namespace weft
