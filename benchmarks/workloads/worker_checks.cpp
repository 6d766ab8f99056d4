// Collectives compared with each other: pairs in which one must not be slower, and times that must
// not jump between numbers of ranks or elements.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "benchmarks/harness/collective.hpp"
#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/collective.hpp"

namespace weft::bench {
namespace {

constexpr double kNotSlower = 1.15;
constexpr double kNoStepOfElements = 1.5;
constexpr double kNoStepOfRanks = 2;

// Ranks without a part in a block must leave the processors to the others.
constexpr Idle kDoze{200, [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); }};
// Long compared with the time to wake up from kDoze.
constexpr std::chrono::milliseconds kBlockOfDozers{3};

/// The work of the job's first ranks in one timed operation. Unless they are empty, `in` is
/// rewritten before and `out` is its sum.
struct Side {
  int ranks = 0;
  Tensor in{};
  Tensor out{};
  std::function<Status()> act{};  ///< called by those ranks only
  std::uint64_t turn = 0;
};

/// Compares the first side with the second, or with a line between the second and the third.
struct Check {
  std::string what;
  std::size_t size = 0;  ///< bytes of a rank's tensor
  double allowed = kNotSlower;
  std::vector<Side> sides;

  std::vector<double> bound(const std::vector<std::vector<double>>& samples) const {
    if (sides.size() == 2) return samples[1];
    const double way = sides[0].ranks - sides[1].ranks;
    return between(samples[1], samples[2], way / (sides[2].ranks - sides[1].ranks));
  }
};

/// The first ranks of the job as a group of their own, with their flags.
struct Members {
  Members(World& world, const RunOptions& options, int ranks)
      : meeting(world, options, "bench.checks." + std::to_string(ranks), 0) {
    if (world.rank() >= ranks) return;
    std::vector<int> list(static_cast<std::size_t>(ranks));
    std::iota(list.begin(), list.end(), 0);
    group = Collectives::open(world, list);
    const bool leads = world.rank() == 0;
    const Partners& all = meeting.partners();
    steps = std::make_unique<CollectiveSteps>(
        meeting.flags(), leads ? Partners(all.begin(), all.begin() + ranks - 1) : all, leads,
        meeting.idle());
  }

  SharedMemory meeting;
  Collectives group;
  std::unique_ptr<CollectiveSteps> steps;
};

class Checks {
 public:
  Checks(World& world, const RunOptions& options)
      : world_(world),
        options_(options),
        meeting_(world, options, "bench.checks", 0),
        dozes_(world.size() > 2),
        conductor_(meeting_.flags(), meeting_.partners(), dozes_ ? kDoze : meeting_.idle()) {}

  std::vector<RunRow> run() {
    const int all = world_.size();
    std::vector<RunRow> rows;
    rows.push_back(run(barrier_of(all)));
    for (int count = 1; count < all; ++count) rows.push_back(run(few_elements(count, all)));
    for (const std::size_t size : options_.sizes) {
      rows.push_back(run(planned(size, all)));
      rows.push_back(run(reduced_and_broadcast(size, all)));
      for (int ranks = 3; ranks < all; ++ranks)
        if (!is_power(ranks) && upper_power(ranks) <= all)
          rows.push_back(run(between_powers(size, ranks)));
    }
    return rows;
  }

 private:
  static bool is_power(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }
  static int upper_power(int ranks) {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  }

  RunRow run(Check check) {
    const bool back_to_back = check.size <= kBackToBack;
    const RunBlock run = [&](Block block) {
      Side& side = check.sides[block.variant];
      return world_.rank() < side.ranks ? steps(side, block.operations, back_to_back) : 0;
    };
    if (world_.rank() != 0) {
      conductor_.follow(run);
      return {};
    }
    std::vector<std::uint32_t> round(check.sides.size());
    std::iota(round.begin(), round.end(), 0U);
    Pace pace{.budget = options_.budget};
    if (dozes_) pace.block = kBlockOfDozers;
    const auto samples = conductor_.lead(round, pace, run);
    const auto bound = check.bound(samples);
    RunRow row = compared(check.size, check.what, samples[0], bound);
    row.figures[std::string(kAllowed)] = check.allowed;
    row.figures[std::string(kSpread)] = spread_of_median(ratios(samples[0], bound));
    return row;
  }

  double steps(Side& side, std::uint32_t operations, bool back_to_back) {
    return members(side.ranks)
        .steps->run(
            operations, back_to_back,
            [&] {
              const float value = collective_value(world_.rank(), ++side.turn);
              if (!side.in.empty()) std::ranges::fill(side.in.as<float>(), value);
            },
            [&] { side.act().or_throw(); }, [&] { check_sum(side); });
  }

  void check_sum(const Side& side) const {
    if (!options_.check || side.out.empty() || side.turn % kCheckEvery != 0) return;
    const auto sum = side.out.as<float>();
    const CollectiveShape shape{sum.size(), sum.size()};
    require_data(collective_right(kAllReduce, sum, shape, side.turn, side.ranks), side.out.bytes(),
                 side.turn);
  }

  // All ranks call these in the same order, including those without a part in a side.

  Members& members(int ranks) {
    auto& found = members_[ranks];
    if (!found) found = std::make_unique<Members>(world_, options_, ranks);
    return *found;
  }

  Side side_of(int ranks, std::size_t elements) {
    members(ranks);
    const Shape shape{static_cast<std::int64_t>(elements)};
    return {.ranks = ranks,
            .in = world_.allocate(DType::f32, shape),
            .out = world_.allocate(DType::f32, shape)};
  }

  /// Runs a plan of the side's group, on its ranks only.
  std::function<Status()> plan(const Side& side, const Call& call) {
    if (world_.rank() >= side.ranks) return {};
    const auto plan = std::make_shared<Plan>(members(side.ranks).group.plan(call));
    return [plan] { return plan->run(); };
  }

  Side summed(int ranks, std::size_t elements) {
    Side side = side_of(ranks, elements);
    side.act = plan(side, all_reduce(side.in, side.out, Reduction::sum));
    return side;
  }

  Check barrier_of(int all) {
    Side barriers{.ranks = all};
    barriers.act = plan(barriers, barrier());
    return {"barrier <= all_reduce", sizeof(float), kNotSlower, {barriers, summed(all, 1)}};
  }

  Check few_elements(int count, int all) {
    return {
        fmt::format("all_reduce of {} <= {} elements", count, all),
        static_cast<std::size_t>(count) * sizeof(float),
        kNoStepOfElements,
        {summed(all, static_cast<std::size_t>(count)), summed(all, static_cast<std::size_t>(all))}};
  }

  Check planned(std::size_t size, int all) {
    const Side by_plan = summed(all, size / sizeof(float));
    Side once = by_plan;
    const Call call = all_reduce(once.in, once.out, Reduction::sum);
    once.act = [this, all, call] { return members(all).group.run(call); };
    return {"all_reduce planned <= once", size, kNotSlower, {by_plan, once}};
  }

  Check reduced_and_broadcast(std::size_t size, int all) {
    const Side at_once = summed(all, size / sizeof(float));
    Side in_two = at_once;
    in_two.act = [reduced = plan(in_two, reduce(in_two.in, in_two.out, Reduction::sum, 0)),
                  spread_out = plan(in_two, broadcast(in_two.out, 0))] {
      const Status status = reduced();
      return status.ok() ? spread_out() : status;
    };
    return {"all_reduce <= reduce, broadcast", size, kNotSlower, {at_once, in_two}};
  }

  Check between_powers(std::size_t size, int ranks) {
    const int above = upper_power(ranks);
    const std::size_t elements = size / sizeof(float);
    return {fmt::format("all_reduce of {} <= {}..{} ranks", ranks, above / 2, above),
            size,
            kNoStepOfRanks,
            {summed(ranks, elements), summed(above / 2, elements), summed(above, elements)}};
  }

  World& world_;
  const RunOptions& options_;
  SharedMemory meeting_;
  const bool dozes_;  ///< some checks leave ranks without a part
  Conductor conductor_;
  std::map<int, std::unique_ptr<Members>> members_;  ///< by their number
};

}  // namespace

std::vector<RunRow> measure_checks(World& world, const RunOptions& options) {
  if (!share_memory(world))
    throw std::runtime_error("ranks that don't share memory have no flags to be timed by");
  return Checks(world, options).run();
}

}  // namespace weft::bench
