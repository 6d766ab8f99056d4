#include "benchmarks/peers/mpi_peer.hpp"

#include <cstdio>
#include <cstring>

namespace weft::bench {

const Idle kMpiProgress{20000, [] {
                          int found = 0;
                          MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found,
                                     MPI_STATUS_IGNORE);
                          sched_yield();
                        }};

int mpi_rank() noexcept {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

MpiFlags::MpiFlags() {
  // Room for alignment to a cache line: MPI promises no alignment.
  constexpr MPI_Aint kBytes = sizeof(FlagArea) + alignof(FlagArea);
  const auto aligned = [](void* address) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t line = alignof(FlagArea);
    return reinterpret_cast<FlagArea*>((at + line - 1) / line * line);
  };
  void* own = nullptr;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Win_allocate_shared(kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window_);
  const bool leads = mpi_rank() == 0;
  for (int other = leads ? 1 : 0; other < (leads ? ranks : 1); ++other) {
    void* peers = nullptr;
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, other, &bytes, &unit, &peers);
    partners_.push_back(aligned(peers));
  }
  std::memset(own, 0, kBytes);
  MPI_Barrier(MPI_COMM_WORLD);
  mine_ = aligned(own);
}

MpiFlags::~MpiFlags() { MPI_Win_free(&window_); }

void require_data(bool right, std::size_t size, std::uint64_t iteration) {
  if (right) return;
  std::fprintf(stderr, "wrong data: %zu bytes, iteration %llu, differ from what was sent\n", size,
               static_cast<unsigned long long>(iteration));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

namespace {

std::vector<RunRow> measure(const RunOptions& options) {
  if (options.benchmark == kLatency) return mpi_latency(options);
  if (options.benchmark == kPutBandwidth) return mpi_bandwidth(options);
  if (options.benchmark == kSendRecv) return mpi_send_recv(options);
  if (options.benchmark == kMessageRate) return mpi_message_rate(options);
  if (is_collective(options.benchmark)) return mpi_collective(options);
  if (options.benchmark == kWire) return mpi_wire(options);
  return mpi_push_pull(options);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  const auto options = weft::bench::parse_run(argc, argv);
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != options.ranks) {
    std::fprintf(stderr, "this run needs %d ranks, here are %d; start it with -n %d\n",
                 options.ranks, ranks, options.ranks);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const auto rows = weft::bench::measure(options);
  if (weft::bench::mpi_rank() == 0) std::puts(weft::bench::to_line(rows).c_str());
  MPI_Finalize();
  return 0;
}
