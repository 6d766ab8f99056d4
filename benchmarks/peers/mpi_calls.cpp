// Collectives as an MPI program calls them.
#include "benchmarks/peers/collective_calls.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {

struct CollectiveCalls::State {
  int ranks = 1;
};

CollectiveCalls::CollectiveCalls(bool) : state_(std::make_unique<State>()) {
  MPI_Comm_size(MPI_COMM_WORLD, &state_->ranks);
}
CollectiveCalls::~CollectiveCalls() = default;

void CollectiveCalls::run(std::string_view name, float* in, float* out, std::size_t count) {
  const auto all = static_cast<int>(count);
  const int part = all / state_->ranks;
  if (name == kAllReduce)
    MPI_Allreduce(in, out, all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (name == kBroadcast)
    MPI_Bcast(in, all, MPI_FLOAT, 0, MPI_COMM_WORLD);
  else if (name == kAllGather)
    MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
  else if (name == kReduceScatter)
    MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (name == kAllToAll)
    MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
  else
    MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace weft::bench
