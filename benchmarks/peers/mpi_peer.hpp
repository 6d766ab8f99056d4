// The benchmarks' work as an MPI program; built once per MPI.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "benchmarks/harness/flags.hpp"
#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// Flags that all ranks see, so that the peers are timed by the same bare handshake as weft. Every
/// rank owns its area. Collective to construct and destroy.
class MpiFlags {
 public:
  MpiFlags();
  ~MpiFlags();
  MpiFlags(const MpiFlags&) = delete;
  MpiFlags& operator=(const MpiFlags&) = delete;

  FlagArea& mine() const noexcept { return *mine_; }
  /// The first partner's area: a rank's leader, or the leader's first follower.
  const FlagArea& theirs() const noexcept { return *partners_.front(); }
  /// The leader's followers, or a follower's leader.
  const Partners& partners() const noexcept { return partners_; }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  FlagArea* mine_ = nullptr;
  Partners partners_;
};

int mpi_rank() noexcept;

/// Used while a rank waits for a bare flag: lets MPI progress, since the other rank may depend on
/// it.
extern const Idle kMpiProgress;

/// Collective over two ranks, or over any number for collectives; rank 0 returns the rows.
std::vector<RunRow> mpi_latency(const RunOptions& options);
std::vector<RunRow> mpi_bandwidth(const RunOptions& options);
std::vector<RunRow> mpi_push_pull(const RunOptions& options);
std::vector<RunRow> mpi_send_recv(const RunOptions& options);
std::vector<RunRow> mpi_message_rate(const RunOptions& options);
bool is_collective(std::string_view benchmark) noexcept;
std::vector<RunRow> mpi_collective(const RunOptions& options);
std::vector<RunRow> mpi_wire(const RunOptions& options);

/// Ends the job with a line on stderr unless `right`.
void require_data(bool right, std::size_t size, std::uint64_t iteration);

}  // namespace weft::bench
