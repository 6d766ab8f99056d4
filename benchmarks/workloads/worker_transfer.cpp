// One tensor to the other rank, which finds its largest element: by put, by view, by a put from
// plain memory, and by a call with private buffers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/rpc_built.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/transfer_ways.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

SlotSpec word_spec(const std::string& name) {
  return {.name = name, .dtype = DType::f32, .shape = Shape{1}, .depth = 2};
}

/// A word that one rank sends to the other.
class Told {
 public:
  Told(World& world, int from, const std::string& name) {
    if (world.rank() != from) {
      inbox_ = world.expose(word_spec(name));
      return;
    }
    word_ = world.allocate(DType::f32, Shape{1});
    outbox_ = world.attach(1 - from, word_spec(name));
  }
  void tell(float value) {
    word_.as<float>()[0] = value;
    outbox_.put(word_).wait().or_throw();
  }
  float hear() { return inbox_.wait().value().as<float>()[0]; }

 private:
  Slot inbox_;
  RemoteSlot outbox_;
  Tensor word_;
};

std::size_t floats_of(std::size_t size) { return size / sizeof(float); }

/// The time one processor needs for the work and for the copy, which a view avoids. A tensor that
/// is larger than `scratch` is copied there piece by piece.
double limit_of(const float* from, std::size_t count, const Tensor& scratch, bool copies) {
  const std::size_t most = floats_of(scratch.bytes());
  return timed([&] {
    for (std::size_t first = 0; first < count; first += most) {
      const std::size_t some = std::min(most, count - first);
      if (copies) std::memcpy(scratch.data(), from + first, some * sizeof(float));
      keep(largest(copies ? scratch.as<float>().data() : from + first, some));
    }
  });
}

RunRow lead(World& world, TransferWay& way, Told& count, Told& answer, std::size_t size,
            const RunOptions& options) {
  constexpr std::size_t kMostScratch = 256 << 20;
  const std::size_t elements = floats_of(size);
  const Tensor scratch = world.allocate(
      DType::f32, Shape{static_cast<std::int64_t>(std::min(elements, kMostScratch))});
  std::vector<double> limits;
  const auto transfer = [&](std::uint64_t iteration) {
    const Tensor tensor = way.source->next();
    auto* const floats = reinterpret_cast<float*>(tensor.data());
    fill_floats(floats, elements, iteration);
    float heard = 0;
    const double spent = timed([&] {
      way.source->move();
      heard = answer.hear();
    });
    limits.push_back(limit_of(floats, elements, scratch, way.kind != kByView));
    if (options.check) require_data(heard == largest(floats, elements), size, iteration);
    return spent;
  };
  const auto samples = lead_transfers(
      options.budget, [&](std::uint64_t n) { count.tell(static_cast<float>(n)); }, transfer);
  limits.erase(limits.begin(), limits.begin() + TransferCount::kWarmUp);
  return compared(size, way.kind, samples, limits);
}

void follow(TransferWay& way, Told& count, Told& answer, std::size_t size) {
  const auto take = [&](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i)
      answer.tell(largest(way.target->take(), floats_of(size)));
  };
  take(TransferCount::kWarmUp);
  take(static_cast<std::uint64_t>(count.hear()));
}

}  // namespace

std::vector<RunRow> measure_transfer(World& world, const RunOptions& options) {
  Told count(world, 0, "fig7.count");
  Told answer(world, 1, "fig7.answer");
  std::vector<RunRow> rows;
  std::size_t number = 0;
  for (const std::size_t size : options.sizes)
    for (const std::string_view kind : kKindsOfTransfer) {
      if (!options.kind.empty() && kind != options.kind) continue;
      if (kind == kByRpc && !kRpcRefusal.empty()) {
        if (world.rank() == 0) fmt::print(stderr, "fig7: skipped: rpc: {}\n", kRpcRefusal);
        continue;
      }
      TransferWay way = make_transfer_way(world, kind, size, number++);
      if (world.rank() == 0)
        rows.push_back(lead(world, way, count, answer, size, options));
      else
        follow(way, count, answer, size);
    }
  return rows;
}

}  // namespace weft::bench
