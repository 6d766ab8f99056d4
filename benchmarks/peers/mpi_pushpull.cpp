// A training step's traffic by send and receive: the gradient there, a sum, the parameters back.
#include <algorithm>

#include "benchmarks/harness/blocks.hpp"
#include "benchmarks/harness/hand_over.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {
namespace {

class Step {
 public:
  Step(const MpiFlags& flags, std::size_t size, bool check)
      : count_(size / sizeof(float)),
        check_(check),
        hand_over_(flags.mine(), flags.theirs(), kMpiProgress) {
    const auto bytes = static_cast<MPI_Aint>(size);
    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &gradient_);
    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &parameters_);
    std::fill_n(parameters_, count_, 0.0F);
  }
  ~Step() {
    MPI_Free_mem(gradient_);
    MPI_Free_mem(parameters_);
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// Rank 0: returns microseconds for a gradient there and the parameters back.
  double work(Block block) {
    double spent = 0;
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      spent += hand_over_.send([this] { fill_gradient(gradient_, count_, hand_over_.number()); },
                               [this] {
                                 send(gradient_);
                                 receive(parameters_);
                                 touch(parameters_, count_ * sizeof(float));
                               });
      expected_.add(hand_over_.number());
      if (check_ && hand_over_.number() % kCheckEvery == 0)
        require_data(expected_.match(parameters_, count_), count_ * sizeof(float),
                     hand_over_.number());
    }
    return spent / block.operations;
  }

  /// Rank 1.
  double serve(Block block) {
    for (std::uint32_t i = 0; i < block.operations; ++i)
      hand_over_.receive([] {},
                         [this] {
                           receive(gradient_);
                           apply_gradient(parameters_, gradient_, count_);
                           send(parameters_);
                         },
                         [] {});
    return 0;
  }

 private:
  void send(const float* values) {
    MPI_Send(values, static_cast<int>(count_), MPI_FLOAT, 1 - mpi_rank(), 0, MPI_COMM_WORLD);
  }
  void receive(float* values) {
    MPI_Recv(values, static_cast<int>(count_), MPI_FLOAT, 1 - mpi_rank(), 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  }

  std::size_t count_;
  bool check_;
  HandOver hand_over_;
  float* gradient_ = nullptr;
  float* parameters_ = nullptr;
  ExpectedParameters expected_;
};

}  // namespace

std::vector<RunRow> mpi_push_pull(const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const MpiFlags flags;
    Conductor conductor(flags.mine(), flags.theirs(), kMpiProgress);
    Step step(flags, size, options.check);
    if (mpi_rank() == 1) {
      conductor.follow([&](Block block) { return step.serve(block); });
      continue;
    }
    const std::uint32_t round[] = {0};
    const auto samples = conductor.lead(round, {.budget = options.budget},
                                        [&](Block block) { return step.work(block); });
    rows.push_back({size, std::string(kTouched), {{"sendrecv", median(samples[0])}}});
  }
  return rows;
}

}  // namespace weft::bench
