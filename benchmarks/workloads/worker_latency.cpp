// An 8-byte put there and back, against the same ping-pong on a bare flag.
#include <chrono>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/ping.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

// Deep enough that a credit is due only every few transfers, as in any slot that is not lock-step.
constexpr std::uint32_t kLatencyDepth = 8;

class PingPong {
 public:
  PingPong(World& world, const SharedMemory& bare, bool check)
      : leads_(world.rank() == 0),
        check_(check),
        bare_(bare.flags(), bare.their_flags(), leads_, bare.idle()),
        inbox_(world.expose(spec())),
        outbox_(world.attach(1 - world.rank(), spec())),
        source_(world.allocate(DType::i64, Shape{1})) {}

  /// Returns microseconds one way.
  double run(Block block) {
    if (block.variant != kWeft) return run_bare(block.operations);
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < block.operations; ++i) leads_ ? (put(), take()) : (take(), put());
    const auto spent = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::micro>(spent).count() / block.operations / 2;
  }

 private:
  static SlotSpec spec() {
    return {.name = "latency", .dtype = DType::i64, .shape = Shape{1}, .depth = kLatencyDepth};
  }

  void put() {
    source_.as<std::int64_t>()[0] = ++sent_;
    outbox_.put(source_).wait().or_throw();
  }

  void take() {
    const Arrival arrival = inbox_.wait().value();
    const std::int64_t value = arrival.as<std::int64_t>()[0];
    ++taken_;
    if (check_) require_data(value == taken_, sizeof(value), static_cast<std::uint64_t>(taken_));
  }

  double run_bare(std::uint32_t operations) {
    const double spent = bare_.run(operations);
    require_data(!check_ || bare_.right(), sizeof(std::uint64_t), operations);
    return spent;
  }

  bool leads_;
  bool check_;
  Ping bare_;
  Slot inbox_;
  RemoteSlot outbox_;
  Tensor source_;
  std::int64_t sent_ = 0;
  std::int64_t taken_ = 0;
};

}  // namespace

std::vector<RunRow> measure_latency(World& world, const RunOptions& options) {
  const SharedMemory bare(world, options, "bench.latency", 0);
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  PingPong game(world, bare, options.check);
  const RunBlock run = [&game](Block block) { return game.run(block); };
  if (world.rank() == 1) {
    conductor.follow(run);
    return {};
  }
  return {measure_against_limit(conductor, kNoCopy, {.budget = options.budget},
                                sizeof(std::int64_t), kTouched, run)};
}

}  // namespace weft::bench
