// The measurements of worker_messages.cpp by MPI: ping-pong by size, and windows of small messages.
#include <chrono>
#include <cstddef>
#include <vector>

#include "benchmarks/harness/blocks.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double micros_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

class SendReceive {
 public:
  SendReceive(std::size_t size, bool check) : check_(check), outgoing_(size), incoming_(size) {}

  /// Returns microseconds one way.
  double run(Block block, bool touched) {
    touched_ = touched;
    const auto start = SteadyClock::now();
    for (std::uint32_t i = 0; i < block.operations; ++i)
      leads_ ? (send(), receive()) : (receive(), send());
    return micros_since(start) / block.operations / 2;
  }

 private:
  int count() const noexcept { return static_cast<int>(outgoing_.size()); }
  void send() {
    ++sent_;
    if (touched_ || check_) fill(outgoing_.data(), outgoing_.size(), sent_);
    MPI_Send(outgoing_.data(), count(), MPI_BYTE, other_, 0, MPI_COMM_WORLD);
  }
  void receive() {
    ++received_;
    MPI_Recv(incoming_.data(), count(), MPI_BYTE, other_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (touched_) touch(incoming_.data(), incoming_.size());
    if (check_)
      require_data(holds(incoming_.data(), incoming_.size(), received_), incoming_.size(),
                   received_);
  }

  bool check_;
  bool touched_ = false;
  bool leads_ = mpi_rank() == 0;
  int other_ = 1 - mpi_rank();
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

class Rate {
 public:
  Rate(std::size_t size, bool check)
      : check_(check), size_(size), buffers_(kWindow, std::vector<std::byte>(size)) {}

  /// Returns microseconds per message.
  double run(Block block) {
    const auto start = SteadyClock::now();
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      ++window_;
      leads_ ? send() : receive();
    }
    return micros_since(start) / block.operations / kWindow;
  }

 private:
  int count() const noexcept { return static_cast<int>(size_); }
  void send() {
    for (std::size_t i = 0; i < kWindow; ++i) {
      if (check_) fill(buffers_[i].data(), size_, window_ + i);
      MPI_Isend(buffers_[i].data(), count(), MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests_[i]);
    }
    MPI_Waitall(kWindow, requests_, MPI_STATUSES_IGNORE);
    MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void receive() {
    for (std::size_t i = 0; i < kWindow; ++i)
      MPI_Irecv(buffers_[i].data(), count(), MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests_[i]);
    MPI_Waitall(kWindow, requests_, MPI_STATUSES_IGNORE);
    for (std::size_t i = 0; check_ && i < kWindow; ++i)
      require_data(holds(buffers_[i].data(), size_, window_ + i), size_, window_);
    MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  }

  bool check_;
  bool leads_ = mpi_rank() == 0;
  std::size_t size_;
  std::vector<std::vector<std::byte>> buffers_;
  MPI_Request requests_[kWindow];
  std::uint64_t window_ = 0;
};

void measure(const RunOptions& options, std::size_t size, std::string_view kind,
             const RunBlock& run, std::vector<RunRow>& rows) {
  const MpiFlags flags;
  Conductor conductor(flags.mine(), flags.theirs(), kMpiProgress);
  if (mpi_rank() == 1) {
    conductor.follow(run);
    return;
  }
  const std::uint32_t round[] = {0};
  const auto samples = conductor.lead(round, {.budget = options.budget}, run);
  rows.push_back({size, std::string(kind), {{"sendrecv", median(samples[0])}}});
}

}  // namespace

std::vector<RunRow> mpi_send_recv(const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    SendReceive game(size, options.check);
    for (const std::string_view kind : {kUntouched, kTouched})
      measure(
          options, size, kind, [&](Block block) { return game.run(block, kind == kTouched); },
          rows);
  }
  return rows;
}

std::vector<RunRow> mpi_message_rate(const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    Rate game(size, options.check);
    measure(
        options, size, kUntouched, [&](Block block) { return game.run(block); }, rows);
  }
  return rows;
}

}  // namespace weft::bench
