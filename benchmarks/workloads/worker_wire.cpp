// Puts between two ranks that may be on different hosts. All access to the other rank's memory goes
// through weft.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/wire.hpp"
#include "benchmarks/limits/bare_stream.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

using Timer = std::chrono::steady_clock;

double microseconds_since(Timer::time_point start) {
  return std::chrono::duration<double, std::micro>(Timer::now() - start).count();
}

/// A word each way.
class Words {
 public:
  explicit Words(World& world)
      : inbox_(world.expose(spec())),
        outbox_(world.attach(1 - world.rank(), spec())),
        word_(world.allocate(DType::i64, Shape{1})) {}

  void put() { outbox_.put(word_).wait().or_throw(); }
  void await() { (void)inbox_.wait().value(); }

 private:
  static SlotSpec spec() {
    return {.name = "wire word", .dtype = DType::i64, .shape = Shape{1}, .depth = 64};
  }
  Slot inbox_;
  RemoteSlot outbox_;
  Tensor word_;
};

RunRow latency(World& world, Words& words, BareStream& bare, std::uint32_t blocks) {
  std::vector<double> samples;
  std::vector<double> limit;
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    std::vector<double> pings;
    for (std::uint32_t i = 0; i < kWirePings; ++i) {
      const auto start = Timer::now();
      if (world.rank() == 1) words.await();
      words.put();
      if (world.rank() == 0) words.await();
      pings.push_back(microseconds_since(start) / 2);
    }
    const double bare_ping = median(bare.pings(kWirePings));
    if (block == 0) continue;
    samples.push_back(median(pings));
    limit.push_back(bare_ping);
  }
  return compared(sizeof(std::int64_t), "latency", samples, limit);
}

/// Sends a block's tensors, and gets a word back once all have arrived.
RunRow bandwidth(World& world, Words& words, BareStream& bare, std::size_t size,
                 std::uint32_t blocks) {
  const SlotSpec spec{.name = "wire " + std::to_string(size),
                      .dtype = DType::u8,
                      .shape = Shape{static_cast<std::int64_t>(size)},
                      .depth = kWireUnderWay};
  const std::uint32_t tensors = wire_tensors(size);
  LimitWays limit = BareStream::ways_to_send(size);
  if (world.rank() == 1) {
    Slot slot = world.expose(spec);
    words.put();
    for (std::uint32_t block = 0; block <= blocks; ++block) {
      for (std::uint32_t i = 0; i < tensors; ++i) (void)slot.wait().value();
      words.put();
      bare.send(size, tensors, limit);
    }
    words.await();
    return {};
  }
  words.await();
  RemoteSlot remote = world.attach(1, spec);
  std::vector<Tensor> sources;
  for (std::uint32_t i = 0; i < kWireUnderWay; ++i) {
    sources.push_back(world.allocate(DType::u8, spec.shape));
    std::memset(sources.back().data(), static_cast<int>(i), size);
  }
  std::vector<double> samples;
  std::vector<Request> requests(kWireUnderWay);
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    const auto start = Timer::now();
    for (std::uint32_t i = 0; i < tensors; ++i) {
      Request& request = requests[i % kWireUnderWay];
      if (i >= kWireUnderWay) request.wait().or_throw();
      request = remote.put(sources[i % kWireUnderWay]);
    }
    for (Request& request : requests) request.wait().or_throw();
    words.await();
    const double spent = microseconds_since(start) / tensors;
    bare.send(size, tensors, limit);
    if (block > 0) samples.push_back(spent);  // the first registers memory and connects
  }
  words.put();
  return limit.compared(size, "put", samples);
}

}  // namespace

std::vector<RunRow> measure_wire(World& world, const RunOptions& options) {
  Words words(world);
  BareStream bare(world);
  const std::uint32_t blocks = wire_blocks(options);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes)
    rows.push_back(size == sizeof(std::int64_t) ? latency(world, words, bare, blocks)
                                                : bandwidth(world, words, bare, size, blocks));
  return rows;
}

}  // namespace weft::bench
