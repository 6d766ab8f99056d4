// Collectives as persistent plans, against the same loads and stores by hand.
#include <algorithm>
#include <bit>
#include <optional>

#include "benchmarks/harness/collective.hpp"
#include "benchmarks/harness/collective_call.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/limits/bare_collective.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/collective.hpp"

namespace weft::bench {
namespace {

/// Further variants: the same tensors in one call without a plan, and the same number of elements
/// as bf16.
enum OtherVariant : std::uint32_t { kOnce = kLimitStreamed + 1, kHalves };

class Game {
 public:
  Game(World& world, Collectives& group, const SharedMemory& meeting, std::size_t size,
       const RunOptions& options)
      : name_(options.benchmark),
        elements_(size / sizeof(float)),
        shape_(shape_of(name_, elements_, world.size())),
        back_to_back_(size <= kBackToBack),
        check_(options.check),
        group_(group),
        rank_(world.rank()),
        size_(world.size()),
        steps_(meeting.flags(), meeting.partners(), rank_ == 0, meeting.idle()),
        in_(make(world, DType::f32, shape_.in)),
        out_(make(world, DType::f32, shape_.out)),
        half_in_(make(world, DType::bf16, shape_.in)),
        half_out_(make(world, DType::bf16, shape_.out)),
        bare_(world, meeting, shape_.in * sizeof(float), shape_.out * sizeof(float)),
        plan_(group.plan(call_of(name_, in_, out_))) {
    if (name_ == kAllReduce) halves_ = group.plan(all_reduce(half_in_, half_out_, Reduction::sum));
  }

  double run(Block block) {
    const auto once = [&] { group_.run(call_of(name_, in_, out_)).or_throw(); };
    switch (block.variant) {
      case kWeft:
        return steps(block, in_, [&] { plan_.run().or_throw(); });
      case kOnce:
        return steps(block, in_, once);
      case kHalves:
        return steps(block, half_in_, [&] { halves_->run().or_throw(); });
      default:
        return steps_.run(
            block.operations, back_to_back_, [&] { rewrite(bare_.in(rank_), DType::f32); },
            [&] { run_bare(name_, bare_, elements_, block.variant == kLimitStreamed); }, [] {});
    }
  }

 private:
  static Tensor make(World& world, DType dtype, std::size_t elements) {
    return world.allocate(dtype, {static_cast<std::int64_t>(elements)});
  }

  template <typename Act>
  double steps(Block block, const Tensor& in, Act&& act) {
    return steps_.run(
        block.operations, back_to_back_, [&] { rewrite(in.data(), in.dtype()); },
        std::forward<Act>(act), [&] { check(block.variant); });
  }

  void rewrite(std::byte* in, DType dtype) {
    const float value = collective_value(rank_, ++turn_);
    // On other ranks, a broadcast overwrites its only tensor.
    if (name_ == kBroadcast && rank_ != 0) return;
    if (dtype == DType::f32)
      std::fill_n(reinterpret_cast<float*>(in), shape_.in, value);
    else
      std::fill_n(reinterpret_cast<std::uint16_t*>(in), shape_.in,
                  static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }

  void check(std::uint32_t variant) {
    if (!check_ || variant == kHalves || turn_ % kCheckEvery != 0) return;
    const Tensor& result = name_ == kBroadcast ? in_ : out_;
    require_data(collective_right(name_, result.as<float>(), shape_, turn_, size_), result.bytes(),
                 turn_);
  }

  const std::string name_;
  const std::size_t elements_;
  const CollectiveShape shape_;
  const bool back_to_back_;
  const bool check_;
  Collectives& group_;
  const int rank_;
  const int size_;
  CollectiveSteps steps_;
  Tensor in_;
  Tensor out_;
  Tensor half_in_;
  Tensor half_out_;
  BareTensors bare_;
  Plan plan_;
  std::optional<Plan> halves_;
  std::uint64_t turn_ = 0;
};

}  // namespace

std::vector<RunRow> measure_collective(World& world, const RunOptions& options) {
  if (!share_memory(world)) return measure_wire_collective(world, options);
  Collectives group = Collectives::open(world);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const SharedMemory meeting(world, options, "bench.collective." + std::to_string(size), 0);
    Conductor conductor(meeting.flags(), meeting.partners(), meeting.idle());
    Game game(world, group, meeting, size, options);
    const RunBlock run = [&game](Block block) { return game.run(block); };
    if (world.rank() != 0) {
      conductor.follow(run);
      continue;
    }
    std::map<std::string, std::uint32_t> others{{"once", kOnce}};
    if (options.benchmark == kAllReduce) others["bf16"] = kHalves;
    const bool moves = options.benchmark != kBarrier;
    rows.push_back(
        measure_against_limit(conductor, moves ? std::span<const std::uint32_t>(kCopies) : kNoCopy,
                              {.budget = options.budget}, size, std::string(kF32), run, others));
  }
  return rows;
}

}  // namespace weft::bench
