#include "benchmarks/harness/stream.hpp"

#include "benchmarks/harness/cost.hpp"
#include "benchmarks/harness/hand_over.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/ping.hpp"
#include "benchmarks/harness/require_data.hpp"

namespace weft::bench {
namespace {

std::uint64_t stamp_of(const HandOver& hand_over, const Stream& stream, std::size_t tensor) {
  return hand_over.number() * stream.tensors + tensor;
}

class Sender {
 public:
  Sender(const SharedMemory& bare, const Stream& stream, const OutgoingWays& ways)
      : stream_(stream), ways_(ways), hand_over_(bare.flags(), bare.partners(), bare.idle()) {}

  /// Returns microseconds per tensor.
  double run(Block block) {
    StreamSender& way = *ways_[block.variant];
    double spent = 0;
    for (std::uint32_t i = 0; i < block.operations; ++i)
      spent += hand_over_.send([&] { rewrite(way); }, [&] { move(way); });
    return spent / block.operations / static_cast<double>(stream_.tensors);
  }

 private:
  void rewrite(StreamSender& way) {
    for (std::size_t i = 0; i < stream_.tensors; ++i)
      fill(way.source(i), stream_.rewritten, stamp_of(hand_over_, stream_, i));
  }

  void move(StreamSender& way) {
    for (std::size_t i = 0; i < stream_.tensors; ++i) way.move(i, stamp_of(hand_over_, stream_, i));
  }

  const Stream& stream_;
  const OutgoingWays& ways_;
  HandOver hand_over_;
};

class Receiver {
 public:
  Receiver(const SharedMemory& bare, const Stream& stream, const IncomingWays& ways)
      : stream_(stream),
        ways_(ways),
        hand_over_(bare.flags(), bare.partners(), bare.idle()),
        kept_(stream.tensors) {}

  void run(Block block, bool touched) {
    StreamReceiver& way = *ways_[block.variant];
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      const bool checks = stream_.check && hand_over_.number() % kCheckEvery == 0;
      hand_over_.receive([] {}, [&] { take(way, touched, checks); },
                         [&] {
                           if (checks) inspect(way);
                         });
    }
  }

 private:
  void take(StreamReceiver& way, bool touched, bool keeps) {
    for (std::size_t i = 0; i < stream_.tensors; ++i) {
      kept_[i] = way.take(i, stamp_of(hand_over_, stream_, i));
      if (touched) touch(kept_[i], stream_.size);
      if (!keeps) way.release(i);
    }
  }

  void inspect(StreamReceiver& way) {
    for (std::size_t i = 0; i < stream_.tensors; ++i) {
      require_data(holds(kept_[i], stream_.rewritten, stamp_of(hand_over_, stream_, i)),
                   stream_.size, hand_over_.number());
      way.release(i);
    }
  }

  const Stream& stream_;
  const IncomingWays& ways_;
  HandOver hand_over_;
  std::vector<const std::byte*> kept_;
};

std::vector<RunRow> lead(const World& world, const SharedMemory& bare, const Stream& stream,
                         std::span<const Kind> kinds, const OutgoingWays& ways,
                         const MeasureRow& measure) {
  Conductor conductor(bare.flags(), bare.partners(), bare.idle());
  Sender sender(bare, stream, ways);
  Ping ping(bare.flags(), bare.their_flags(), true, bare.idle());
  std::vector<RunRow> rows;
  for (const Kind& kind : kinds) {
    rows.push_back(measure(conductor, kind, [&](Block block) {
      return block.variant == kHop ? ping.run(block.operations) : sender.run(block);
    }));
    add_cost(rows.back(), bare, cost_of(world, stream.name), rows.size());
  }
  return rows;
}

void follow(const World& world, const SharedMemory& bare, const Stream& stream,
            std::span<const Kind> kinds, const IncomingWays& ways) {
  Conductor conductor(bare.flags(), bare.partners(), bare.idle());
  Receiver receiver(bare, stream, ways);
  Ping ping(bare.flags(), bare.their_flags(), false, bare.idle());
  for (const Kind& kind : kinds) {
    conductor.follow([&](Block block) {
      if (block.variant == kHop)
        ping.run(block.operations);
      else
        receiver.run(block, kind.touched);
      return 0.0;
    });
    tell_cost(bare, cost_of(world, stream.name));
  }
}

}  // namespace

MeasureRow against_limit(const Stream& stream, std::span<const std::uint32_t> ways,
                         const RunOptions& options) {
  return [=, size = stream.size, budget = options.budget](Conductor& conductor, const Kind& kind,
                                                          const RunBlock& run) {
    return measure_against_limit(conductor, ways, {.budget = budget}, size, kind.name, run);
  };
}

std::vector<RunRow> run_stream(const World& world, const SharedMemory& bare, const Stream& stream,
                               std::span<const Kind> kinds,
                               const std::function<OutgoingWays()>& outgoing,
                               const std::function<IncomingWays()>& incoming,
                               const MeasureRow& measure) {
  if (world.rank() == 0) return lead(world, bare, stream, kinds, outgoing(), measure);
  follow(world, bare, stream, kinds, incoming());
  return {};
}

std::vector<RunRow> for_each_size(const RunOptions& options,
                                  const std::function<std::vector<RunRow>(Stream)>& run) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const auto more = run({.name = options.benchmark + "." + std::to_string(size),
                           .size = size,
                           .tensors = 1,
                           .rewritten = size,
                           .check = options.check});
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace weft::bench
