// Whole tensors by send and receive, and by MPI_Put.
#include <cstddef>

#include "benchmarks/harness/blocks.hpp"
#include "benchmarks/harness/hand_over.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {
namespace {

enum Variant : std::uint32_t { send_receive, put };

/// Both ends of one size: rank 0 sends out of `buffers_`; rank 1 receives into them, or has them
/// put into its part of the window.
class Transfer {
 public:
  Transfer(const MpiFlags& flags, std::size_t size, bool check)
      : size_(size),
        depth_(depth_for(size)),
        check_(check),
        hand_over_(flags.mine(), flags.theirs(), kMpiProgress),
        requests_(depth_, MPI_REQUEST_NULL) {
    const auto bytes = static_cast<MPI_Aint>(depth_ * size);
    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &buffers_);
    MPI_Win_allocate(mpi_rank() == 1 ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &exposed_,
                     &window_);
    MPI_Win_lock_all(0, window_);
  }
  ~Transfer() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    MPI_Free_mem(buffers_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Rank 0: returns microseconds per tensor.
  double send(Block block) {
    double spent = 0;
    for (std::uint32_t i = 0; i < block.operations; ++i)
      spent += hand_over_.send([this] { rewrite(); },
                               [&] { block.variant == put ? move_by_put() : move_by_send(); });
    return spent / block.operations / static_cast<double>(depth_);
  }

  /// Rank 1.
  double receive(Block block, bool touched) {
    std::byte* const into = block.variant == put ? exposed_ : buffers_;
    for (std::uint32_t i = 0; i < block.operations; ++i)
      hand_over_.receive([&] { prepare(block.variant); },
                         [&] { take(block.variant, into, touched); }, [&] { inspect(into); });
    return 0;
  }

 private:
  std::uint64_t iteration(std::size_t buffer) const noexcept {
    return hand_over_.number() * depth_ + buffer;
  }
  int count() const noexcept { return static_cast<int>(size_); }

  void rewrite() {
    for (std::size_t i = 0; i < depth_; ++i) fill(buffers_ + i * size_, size_, iteration(i));
  }

  void move_by_send() {
    for (std::size_t i = 0; i < depth_; ++i)
      MPI_Isend(buffers_ + i * size_, count(), MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests_[i]);
    MPI_Waitall(static_cast<int>(depth_), requests_.data(), MPI_STATUSES_IGNORE);
  }

  // After the flush, an empty message announces the tensor.
  void move_by_put() {
    for (std::size_t i = 0; i < depth_; ++i) {
      MPI_Put(buffers_ + i * size_, count(), MPI_BYTE, 1, static_cast<MPI_Aint>(i * size_), count(),
              MPI_BYTE, window_);
      MPI_Win_flush(1, window_);
      MPI_Send(nullptr, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    }
  }

  void prepare(std::uint32_t variant) {
    for (std::size_t i = 0; i < depth_; ++i) {
      if (variant == put)
        MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests_[i]);
      else
        MPI_Irecv(buffers_ + i * size_, count(), MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests_[i]);
    }
  }

  void take(std::uint32_t variant, const std::byte* into, bool touched) {
    for (std::size_t i = 0; i < depth_; ++i) {
      MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
      if (variant == put) MPI_Win_sync(window_);
      if (touched) touch(into + i * size_, size_);
    }
  }

  void inspect(const std::byte* into) {
    if (!check_ || hand_over_.number() % kCheckEvery != 0) return;
    for (std::size_t i = 0; i < depth_; ++i)
      require_data(holds(into + i * size_, size_, iteration(i)), size_, hand_over_.number());
  }

  std::size_t size_;
  std::size_t depth_;
  bool check_;
  HandOver hand_over_;
  std::vector<MPI_Request> requests_;
  std::byte* buffers_ = nullptr;
  std::byte* exposed_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

void measure(std::size_t size, const RunOptions& options, std::vector<RunRow>& rows) {
  const MpiFlags flags;
  Conductor conductor(flags.mine(), flags.theirs(), kMpiProgress);
  Transfer transfer(flags, size, options.check);
  for (const std::string_view kind : {kUntouched, kTouched}) {
    if (mpi_rank() == 1) {
      conductor.follow([&](Block block) { return transfer.receive(block, kind == kTouched); });
      continue;
    }
    const std::uint32_t round[] = {send_receive, put};
    const auto samples = conductor.lead(round, {.budget = options.budget},
                                        [&](Block block) { return transfer.send(block); });
    rows.push_back({size,
                    std::string(kind),
                    {{"sendrecv", median(samples[send_receive])}, {"put", median(samples[put])}}});
  }
}

}  // namespace

std::vector<RunRow> mpi_bandwidth(const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) measure(size, options, rows);
  return rows;
}

}  // namespace weft::bench
