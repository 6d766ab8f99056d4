// Collectives of a peer, among processes that MPI has started.
#include <algorithm>

#include "benchmarks/harness/collective.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/wire.hpp"
#include "benchmarks/peers/collective_calls.hpp"
#include "benchmarks/peers/mpi_peer.hpp"

namespace weft::bench {
namespace {

class Game {
 public:
  Game(CollectiveCalls& calls, std::size_t size, const RunOptions& options)
      : calls_(calls),
        name_(options.benchmark),
        elements_(size / sizeof(float)),
        shape_(shape_of(name_, elements_, options.ranks)),
        back_to_back_(size <= kBackToBack),
        check_(options.check),
        size_(options.ranks) {
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

  double run(CollectiveSteps& steps, Block block) {
    return steps.run(
        block.operations, back_to_back_, [this] { rewrite(); }, [this] { act(); },
        [this] { check(); });
  }
  /// Timed by this rank's clock alone.
  double run_apart(std::uint32_t operations) {
    MPI_Barrier(MPI_COMM_WORLD);
    operate();
    const double start = MPI_Wtime();
    for (std::uint32_t i = 0; i < operations; ++i) operate();
    const double spent = MPI_Wtime() - start;
    check();
    return spent * 1e6 / operations;
  }

 private:
  void rewrite() {
    const float value = collective_value(mpi_rank(), ++turn_);
    if (name_ == kBroadcast && mpi_rank() != 0) return;
    std::fill_n(in_, shape_.in, value);
  }
  void operate() {
    rewrite();
    act();
  }
  void act() { calls_.run(name_, in_, out_, elements_); }
  void check() {
    if (!check_) return;
    const std::size_t count = name_ == kBroadcast ? shape_.in : shape_.out;
    const std::span<const float> result(name_ == kBroadcast ? in_ : out_, count);
    require_data(collective_right(name_, result, shape_, turn_, size_), count * sizeof(float),
                 turn_);
  }

  CollectiveCalls& calls_;
  const std::string name_;
  const std::size_t elements_;
  const CollectiveShape shape_;
  const bool back_to_back_;
  const bool check_;
  const int size_;
  float* in_ = nullptr;
  float* out_ = nullptr;
  std::uint64_t turn_ = 0;
};

}  // namespace

bool is_collective(std::string_view name) noexcept {
  return name == kAllReduce || name == kBroadcast || name == kAllGather || name == kReduceScatter ||
         name == kAllToAll || name == kBarrier;
}

namespace {

bool on_one_host(int ranks) {
  MPI_Comm host = MPI_COMM_NULL;
  int here = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &here);
  MPI_Comm_free(&host);
  return here == ranks;
}

RunRow between_hosts(CollectiveCalls& calls, std::size_t size, const RunOptions& options) {
  Game game(calls, size, options);
  std::vector<double> samples;
  for (std::uint32_t block = 0; block <= wire_blocks(options); ++block) {
    const double spent = game.run_apart(wire_operations(size));
    if (block > 0) samples.push_back(spent);
  }
  return {size, std::string(kF32), {{"sendrecv", median(samples)}}};
}

}  // namespace

std::vector<RunRow> mpi_collective(const RunOptions& options) {
  std::vector<RunRow> rows;
  const bool one_host = on_one_host(options.ranks);
  CollectiveCalls calls(one_host);
  if (!one_host) {
    for (const std::size_t size : options.sizes)
      rows.push_back(between_hosts(calls, size, options));
    return rows;
  }
  for (const std::size_t size : options.sizes) {
    const MpiFlags flags;
    Conductor conductor(flags.mine(), flags.partners(), kMpiProgress);
    CollectiveSteps steps(flags.mine(), flags.partners(), mpi_rank() == 0, kMpiProgress);
    Game game(calls, size, options);
    const RunBlock run = [&](Block block) { return game.run(steps, block); };
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
