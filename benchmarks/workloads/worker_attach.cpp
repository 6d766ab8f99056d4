// Exposing, attaching to and first putting into slots, against a bare exchange of as many messages
// over a Unix socket.
#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/harness/hand_over.hpp"
#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/limits/seqpacket.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

constexpr std::string_view kKind = "first put";

// A job attaches to many slots and keeps them. At this number both ends release all slots, and wait
// for the progress threads to exchange the messages about that. This is not timed.
constexpr std::size_t kMostAttached = 64;
constexpr std::chrono::milliseconds kTeardown{2};

// One short block of fewer slots than are kept.
constexpr Pace kBrief{.block = std::chrono::microseconds(100),
                      .budget = std::chrono::microseconds(0),
                      .least_rounds = 1};

SlotSpec spec_for(std::size_t size, std::uint64_t number) {
  return {.name = "attach." + std::to_string(size) + "." + std::to_string(number),
          .dtype = DType::u8,
          .shape = Shape{static_cast<std::int64_t>(size)}};
}

/// Slot ends that are kept for a while.
template <typename End>
class Kept {
 public:
  End& add(End end) {
    if (ends_.size() == kMostAttached) {
      ends_.clear();
      std::this_thread::sleep_for(kTeardown);
    }
    return ends_.emplace_back(std::move(end));
  }

 private:
  std::vector<End> ends_;
};

std::uint64_t messages_sent(const World& world) {
  std::uint64_t sum = 0;
  for (const PathReport& path : world.report().paths) sum += path.counters.control_messages;
  return sum;
}

/// Variants: kWeft, and from 1 on the number of round trips of the limit.
class Attacher {
 public:
  Attacher(World& world, const SharedMemory& bare, std::size_t size)
      : world_(world),
        bare_(bare),
        size_(size),
        hand_over_(bare.flags(), bare.their_flags(), bare.idle()),
        socket_(bare, true),
        source_(world.allocate(DType::u8, spec_for(size, 0).shape)) {}

  /// Returns microseconds from the call of expose() to the arrival of the first tensor.
  double run(Block block) {
    double spent = 0;
    for (std::uint32_t i = 0; i < block.operations; ++i)
      spent += hand_over_.send([&] { fill(source_.data(), size_, hand_over_.number()); },
                               [&] {
                                 const std::uint64_t number = hand_over_.number();
                                 raise_to(bare_.flags().announced, 2 * number);
                                 await(bare_.their_flags().announced, number, bare_.idle());
                                 block.variant == kWeft ? attach(number)
                                                        : exchange(block.variant, number);
                               });
    return spent / block.operations;
  }

  std::uint64_t attached() const noexcept { return attached_; }

 private:
  void attach(std::uint64_t number) {
    RemoteSlot& remote = kept_.add(world_.attach(1, spec_for(size_, number)));
    remote.put(source_).wait().or_throw();
    ++attached_;
  }

  void exchange(std::uint32_t round_trips, std::uint64_t number) {
    socket_.run(round_trips);
    limit_copy(kLimit, bare_.data(), source_.data(), size_);
    raise_to(bare_.flags().announced, 2 * number + 1);
  }

  World& world_;
  const SharedMemory& bare_;
  std::size_t size_;
  HandOver hand_over_;
  Seqpacket socket_;
  Tensor source_;
  Kept<RemoteSlot> kept_;
  std::uint64_t attached_ = 0;
};

class Exposer {
 public:
  Exposer(World& world, const SharedMemory& bare, std::size_t size, bool check)
      : world_(world),
        bare_(bare),
        size_(size),
        check_(check),
        hand_over_(bare.flags(), bare.their_flags(), bare.idle()),
        socket_(bare, false) {}

  void run(Block block) {
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      Arrival arrival;
      const std::byte* data = nullptr;
      hand_over_.receive([] {},
                         [&] {
                           await(bare_.their_flags().announced, 2 * hand_over_.number(),
                                 bare_.idle());
                           if (block.variant == kWeft) {
                             arrival = expose();
                             data = arrival.tensor().data();
                           } else {
                             exchange(block.variant);
                             data = bare_.their_data();
                           }
                         },
                         [&] { inspect(data); });
    }
  }

 private:
  Arrival expose() {
    Slot& slot = kept_.add(world_.expose(spec_for(size_, hand_over_.number())));
    raise_to(bare_.flags().announced, hand_over_.number());
    return slot.wait().value();
  }

  void exchange(std::uint32_t round_trips) {
    raise_to(bare_.flags().announced, hand_over_.number());
    socket_.run(round_trips);
    await(bare_.their_flags().announced, 2 * hand_over_.number() + 1, bare_.idle());
  }

  void inspect(const std::byte* data) const {
    if (check_) require_data(holds(data, size_, hand_over_.number()), size_, hand_over_.number());
  }

  World& world_;
  const SharedMemory& bare_;
  std::size_t size_;
  bool check_;
  HandOver hand_over_;
  Seqpacket socket_;
  Kept<Slot> kept_;
};

std::uint64_t all_messages(const World& world, const SharedMemory& bare, std::uint64_t times) {
  await(bare.their_flags().cost, times, bare.idle());
  return messages_sent(world) + bare.their_flags().cost.payload[0];
}

RunRow lead(World& world, const SharedMemory& bare, std::size_t size, const RunOptions& options) {
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  Attacher attacher(world, bare, size);
  const RunBlock run = [&attacher](Block block) { return attacher.run(block); };

  // Counts the messages of an attach before any teardown sends more.
  constexpr std::uint32_t kAlone[] = {kWeft};
  const std::uint64_t before = all_messages(world, bare, 1);
  conductor.lead(kAlone, kBrief, run);
  const std::uint64_t said = all_messages(world, bare, 2) - before;
  const double messages = static_cast<double>(said) / static_cast<double>(attacher.attached());

  const std::uint32_t ways[] = {
      std::max(1U, static_cast<std::uint32_t>(std::lround(messages / 2)))};
  RunRow row = measure_against_limit(conductor, ways, {.budget = options.budget}, size, kKind, run);
  row.figures = {{"messages", messages}, {"slots_per_s", 1e6 / row.values["weft"]}};
  return row;
}

void follow(World& world, const SharedMemory& bare, std::size_t size, const RunOptions& options) {
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  Exposer exposer(world, bare, size, options.check);
  const auto tell = [&](std::uint64_t times) {
    bare.flags().cost.payload[0] = messages_sent(world);
    raise_to(bare.flags().cost, times);
  };
  const RunBlock run = [&exposer](Block block) {
    exposer.run(block);
    return 0.0;
  };
  tell(1);
  conductor.follow(run);
  tell(2);
  conductor.follow(run);
}

}  // namespace

std::vector<RunRow> measure_attach(World& world, const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    const SharedMemory bare(world, options, "bench.attach." + std::to_string(size), size);
    if (world.rank() == 0)
      rows.push_back(lead(world, bare, size, options));
    else
      follow(world, bare, size, options);
  }
  return rows;
}

}  // namespace weft::bench
