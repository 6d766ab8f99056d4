// Puts and gets between two ranks by the job's fabric, for comparison with perftest. All access to
// the other rank's memory goes through weft.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/limits/bare_queue_pair.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

using Timer = std::chrono::steady_clock;

double microseconds_since(Timer::time_point start) {
  return std::chrono::duration<double, std::micro>(Timer::now() - start).count();
}

/// A word each way, which keeps the two ranks in step.
class Steps {
 public:
  Steps(World& world, const char* name)
      : inbox_(world.expose(spec(name))),
        outbox_(world.attach(1 - world.rank(), spec(name))),
        word_(world.allocate(DType::i64, Shape{1})) {}

  void tell() { outbox_.put(word_, Until::delivered).wait().or_throw(); }
  void await() { (void)inbox_.wait().value(); }
  void meet() {
    tell();
    await();
  }

 private:
  static SlotSpec spec(const char* name) {
    return {.name = name, .dtype = DType::i64, .shape = Shape{1}, .depth = 2};
  }
  Slot inbox_;
  RemoteSlot outbox_;
  Tensor word_;
};

constexpr std::uint32_t kUnderWay = 16;
constexpr std::uint32_t kPings = 50;

/// An 8-byte ping-pong, against bare WRITE_WITH_IMMs. Both have the same number under way before
/// they must hear from the other side: buffers for weft, posted receives for the limit.
RunRow latency(World& world, BareQueuePair& bare, std::uint32_t blocks) {
  const SlotSpec spec{.name = "rdma latency",
                      .dtype = DType::i64,
                      .shape = Shape{1},
                      .depth = BareQueuePair::kReceives};
  Slot inbox = world.expose(spec);
  RemoteSlot outbox = world.attach(1 - world.rank(), spec);
  const Tensor word = world.allocate(DType::i64, Shape{1});
  std::vector<double> weft;
  std::vector<double> limit;
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    std::vector<double> pings;
    for (std::uint32_t i = 0; i < kPings; ++i) {
      const auto start = Timer::now();
      if (world.rank() == 1) (void)inbox.wait().value();
      outbox.put(word).wait().or_throw();
      if (world.rank() == 0) (void)inbox.wait().value();
      pings.push_back(microseconds_since(start) / 2);
    }
    const double bare_ping = median(bare.pings(kPings));
    if (block == 0) continue;
    // The median hides disturbances of the machine, which hit few pings.
    weft.push_back(median(pings));
    limit.push_back(bare_ping);
  }
  return compared(sizeof(std::int64_t), "latency", weft, limit);
}

/// Tensors put one after another, against bare WRITEs of the same size.
RunRow put_bandwidth(World& world, BareQueuePair& bare, Steps& steps, std::size_t size,
                     std::uint32_t blocks) {
  const SlotSpec spec{.name = "rdma put " + std::to_string(size),
                      .dtype = DType::u8,
                      .shape = Shape{static_cast<std::int64_t>(size)},
                      .depth = kUnderWay};
  if (world.rank() == 1) {
    Slot slot = world.expose(spec);
    steps.tell();
    for (std::uint32_t block = 0; block <= blocks; ++block) {
      for (std::uint32_t i = 0; i < kUnderWay; ++i) (void)slot.wait().value();
      steps.tell();
      steps.await();
    }
    return {};
  }
  steps.await();
  RemoteSlot remote = world.attach(1, spec);
  std::vector<Tensor> sources;
  for (std::uint32_t i = 0; i < kUnderWay; ++i) {
    sources.push_back(world.allocate(DType::u8, spec.shape));
    std::memset(sources.back().data(), static_cast<int>(i), size);
  }
  std::vector<double> weft;
  std::vector<double> limit;
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    const auto start = Timer::now();
    std::vector<Request> requests;
    requests.reserve(kUnderWay);
    for (const Tensor& source : sources) requests.push_back(remote.put(source));
    for (Request& request : requests) request.wait().or_throw();
    const double spent = microseconds_since(start) / kUnderWay;
    steps.await();
    const double bare_spent = bare.write(size, kUnderWay);
    steps.tell();
    if (block == 0) continue;  // registers memory and connects
    weft.push_back(spent);
    limit.push_back(bare_spent);
  }
  return compared(size, "put", weft, limit);
}

/// Runs of `size` bytes, several per get, against bare READs.
RunRow get_bandwidth(World& world, BareQueuePair& bare, Steps& steps, std::size_t size,
                     std::uint32_t blocks) {
  const PublishedSpec spec{.name = "rdma get " + std::to_string(size),
                           .dtype = DType::u8,
                           .shape = Shape{static_cast<std::int64_t>(size * kUnderWay)},
                           .depth = 2};
  if (world.rank() == 1) {
    PublishedSlot slot = world.expose_published(spec);
    steps.tell();
    for (std::uint32_t block = 0; block <= blocks; ++block) {
      const Tensor next = slot.next().value();
      std::memset(next.data(), static_cast<int>(block), next.bytes());
      steps.await();
      slot.publish().or_throw();
    }
    steps.await();
    return {};
  }
  steps.await();
  PublishedReader remote = world.attach_published(1, spec);
  const Tensor into = world.allocate(DType::u8, spec.shape);
  std::vector<SlotRun> runs;
  for (std::size_t i = 0; i < kUnderWay; ++i)
    runs.push_back({.first = static_cast<std::int64_t>(i * size),
                    .count = static_cast<std::int64_t>(size),
                    .to = into.data() + i * size});
  std::vector<double> weft;
  std::vector<double> limit;
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    steps.tell();
    while (!remote.ready()) {
    }
    const auto start = Timer::now();
    remote.get(runs).or_throw();
    const double spent = microseconds_since(start) / kUnderWay;
    const double bare_spent = bare.read(size, kUnderWay);
    if (block == 0) continue;
    weft.push_back(spent);
    limit.push_back(bare_spent);
  }
  steps.tell();
  return compared(size, "get", weft, limit);
}

}  // namespace

std::vector<RunRow> measure_rdma(World& world, const RunOptions& options) {
  for (const PathReport& path : world.report().paths)
    if (path.peer != world.rank() && path.fabric != "verbs")
      throw std::runtime_error("the ranks are not connected by RDMA: " +
                               path.verdicts.back().reason);
  const auto largest = std::max_element(options.sizes.begin(), options.sizes.end());
  BareQueuePair bare(world, *largest * kUnderWay);
  Steps steps(world, "rdma steps");
  const auto blocks =
      static_cast<std::uint32_t>(std::max<std::int64_t>(options.budget.count() / 8, 5));
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    if (size == sizeof(std::int64_t)) {
      rows.push_back(latency(world, bare, blocks * 4));
      continue;
    }
    rows.push_back(put_bandwidth(world, bare, steps, size, blocks));
    rows.push_back(get_bandwidth(world, bare, steps, size, blocks));
  }
  steps.meet();
  return rows;
}

}  // namespace weft::bench
