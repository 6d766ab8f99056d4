// Collectives as an MPI program calls them.
#include <algorithm>

#include "benchmarks/collective.hpp"
#include "benchmarks/peers/mpi_peer.hpp"
#include "benchmarks/statistics.hpp"

namespace weft::bench {
namespace {

class Game {
 public:
  Game(const MpiFlags& flags, std::size_t size, const RunOptions& options)
      : name_(options.benchmark),
        elements_(size / sizeof(float)),
        shape_(shape_of(name_, elements_, options.ranks)),
        part_(static_cast<int>(elements_) / options.ranks),
        back_to_back_(size <= kBackToBack),
        check_(options.check),
        size_(options.ranks),
        steps_(flags.mine(), flags.partners(), mpi_rank() == 0, kMpiProgress) {
    MPI_Alloc_mem(static_cast<MPI_Aint>(shape_.in * sizeof(float) + 64), MPI_INFO_NULL, &in_);
    MPI_Alloc_mem(static_cast<MPI_Aint>(shape_.out * sizeof(float) + 64), MPI_INFO_NULL, &out_);
    std::fill_n(in_, shape_.in, 0.0F);
    std::fill_n(out_, shape_.out, 0.0F);
  }
  ~Game() {
    MPI_Free_mem(in_);
    MPI_Free_mem(out_);
  }
  Game(const Game&) = delete;
  Game& operator=(const Game&) = delete;

  double run(Block block) {
    return steps_.run(
        block.operations, back_to_back_, [this] { rewrite(); }, [this] { act(); },
        [this] { check(); });
  }

 private:
  void rewrite() {
    if (name_ == kBroadcast && mpi_rank() != 0) return;
    std::fill_n(in_, shape_.in, collective_value(mpi_rank(), ++turn_));
  }
  void act() {
    const auto count = static_cast<int>(elements_);
    if (name_ == kAllReduce)
      MPI_Allreduce(in_, out_, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (name_ == kBroadcast)
      MPI_Bcast(in_, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (name_ == kAllGather)
      MPI_Allgather(in_, part_, MPI_FLOAT, out_, part_, MPI_FLOAT, MPI_COMM_WORLD);
    else if (name_ == kReduceScatter)
      MPI_Reduce_scatter_block(in_, out_, part_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (name_ == kAllToAll)
      MPI_Alltoall(in_, part_, MPI_FLOAT, out_, part_, MPI_FLOAT, MPI_COMM_WORLD);
    else
      MPI_Barrier(MPI_COMM_WORLD);
  }
  void check() {
    if (!check_ || (name_ != kAllReduce && name_ != kReduceScatter)) return;
    float expected = 0;
    for (int r = 0; r < size_; ++r) expected += collective_value(r, turn_);
    require_data(std::all_of(out_, out_ + shape_.out, [&](float x) { return x == expected; }),
                 shape_.out * sizeof(float), turn_);
  }

  const std::string name_;
  const std::size_t elements_;
  const CollectiveShape shape_;
  const int part_;
  const bool back_to_back_;
  const bool check_;
  const int size_;
  CollectiveSteps steps_;
  float* in_ = nullptr;
  float* out_ = nullptr;
  std::uint64_t turn_ = 0;
};

}  // namespace

bool is_collective(std::string_view name) noexcept {
  return name == kAllReduce || name == kBroadcast || name == kAllGather || name == kReduceScatter ||
         name == kAllToAll || name == kBarrier;
}

std::vector<RunRow> mpi_collective(const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const MpiFlags flags;
    Conductor conductor(flags.mine(), flags.partners(), kMpiProgress);
    Game game(flags, size, options);
    const RunBlock run = [&game](Block block) { return game.run(block); };
    if (mpi_rank() != 0) {
      conductor.follow(run);
      continue;
    }
    const std::uint32_t round[] = {0};
    const auto samples = conductor.lead(round, {.budget = options.budget}, run);
    rows.push_back({size, std::string(kF32), {{"sendrecv", median(samples[0])}}});
  }
  return rows;
}

}  // namespace weft::bench
