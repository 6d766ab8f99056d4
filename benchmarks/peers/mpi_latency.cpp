// 8 bytes there and back by send and receive.
#include <chrono>

#include "benchmarks/harness/blocks.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {
namespace {

class PingPong {
 public:
  explicit PingPong(bool check) : check_(check) {}

  /// Returns microseconds one way.
  double run(Block block) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < block.operations; ++i)
      leads_ ? (send(), receive()) : (receive(), send());
    const auto spent = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::micro>(spent).count() / block.operations / 2;
  }

 private:
  void send() {
    ++sent_;
    MPI_Send(&sent_, 1, MPI_UINT64_T, other_, 0, MPI_COMM_WORLD);
  }

  void receive() {
    std::uint64_t value = 0;
    MPI_Recv(&value, 1, MPI_UINT64_T, other_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ++received_;
    if (check_) require_data(value == received_, sizeof(value), received_);
  }

  bool check_;
  bool leads_ = mpi_rank() == 0;
  int other_ = 1 - mpi_rank();
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace

std::vector<RunRow> mpi_latency(const RunOptions& options) {
  const MpiFlags flags;
  Conductor conductor(flags.mine(), flags.theirs(), kMpiProgress);
  PingPong game(options.check);
  const RunBlock run = [&game](Block block) { return game.run(block); };
  if (mpi_rank() == 1) {
    conductor.follow(run);
    return {};
  }
  const std::uint32_t round[] = {0};
  const auto samples = conductor.lead(round, {.budget = options.budget}, run);
  return {{sizeof(std::uint64_t), std::string(kTouched), {{"sendrecv", median(samples[0])}}}};
}

}  // namespace weft::bench
