// The benchmark wire by send and receive.
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/wire.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {
namespace {

using Timer = std::chrono::steady_clock;

double microseconds_since(Timer::time_point start) {
  return std::chrono::duration<double, std::micro>(Timer::now() - start).count();
}

const int& other() {
  static const int rank = 1 - mpi_rank();
  return rank;
}

void send_word() {
  const std::uint64_t word = 1;
  MPI_Send(&word, 1, MPI_UINT64_T, other(), 1, MPI_COMM_WORLD);
}

void receive_word() {
  std::uint64_t word = 0;
  MPI_Recv(&word, 1, MPI_UINT64_T, other(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

RunRow latency(std::uint32_t blocks) {
  std::vector<double> samples;
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    std::vector<double> pings;
    for (std::uint32_t i = 0; i < kWirePings; ++i) {
      const auto start = Timer::now();
      if (mpi_rank() == 1) receive_word();
      send_word();
      if (mpi_rank() == 0) receive_word();
      pings.push_back(microseconds_since(start) / 2);
    }
    if (block > 0) samples.push_back(median(pings));
  }
  return {sizeof(std::uint64_t), "latency", {{"sendrecv", median(samples)}}};
}

RunRow bandwidth(std::size_t size, std::uint32_t blocks) {
  const std::uint32_t tensors = wire_tensors(size);
  std::vector<std::byte> buffers(size * kWireUnderWay);
  std::array<MPI_Request, kWireUnderWay> requests{};
  requests.fill(MPI_REQUEST_NULL);
  std::vector<double> samples;
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    const auto start = Timer::now();
    for (std::uint32_t i = 0; i < tensors; ++i) {
      MPI_Request& request = requests[i % kWireUnderWay];
      std::byte* const buffer = buffers.data() + i % kWireUnderWay * size;
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (mpi_rank() == 0)
        MPI_Isend(buffer, static_cast<int>(size), MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
      else
        MPI_Irecv(buffer, static_cast<int>(size), MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
    }
    MPI_Waitall(kWireUnderWay, requests.data(), MPI_STATUSES_IGNORE);
    mpi_rank() == 0 ? receive_word() : send_word();
    if (block > 0) samples.push_back(microseconds_since(start) / tensors);
  }
  return {size, "put", {{"sendrecv", median(samples)}}};
}

}  // namespace

std::vector<RunRow> mpi_wire(const RunOptions& options) {
  const std::uint32_t blocks = wire_blocks(options);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes)
    rows.push_back(size == sizeof(std::uint64_t) ? latency(blocks) : bandwidth(size, blocks));
  return rows;
}

}  // namespace weft::bench
