// Whole tensors put into a slot, against the best bare copy into shared memory.
#include <string>
#include <vector>

#include "benchmarks/hand_over.hpp"
#include "benchmarks/limit.hpp"
#include "benchmarks/payload.hpp"
#include "benchmarks/worker.hpp"

namespace weft::bench {
namespace {

SlotSpec spec_for(std::size_t size) {
  return {.name = "put-bw." + std::to_string(size),
          .dtype = DType::u8,
          .shape = Shape{static_cast<std::int64_t>(size)},
          .depth = static_cast<std::uint32_t>(depth_for(size))};
}

/// What a buffer's pattern is made of: differs between any two tensors of a run.
std::uint64_t iteration(const HandOver& hand_over, std::size_t size, std::size_t buffer) noexcept {
  return hand_over.number() * depth_for(size) + buffer;
}

/// Rank 0: puts into the peer's slot, or copies into memory that the peer reads.
class Sender {
 public:
  Sender(World& world, const SharedMemory& bare, std::size_t size)
      : size_(size),
        bare_(bare),
        hand_over_(bare.flags(), bare.their_flags()),
        remote_(world.attach(1, spec_for(size))) {
    for (std::size_t i = 0; i < depth_for(size); ++i)
      sources_.push_back(world.allocate(DType::u8, spec_for(size).shape));
  }

  /// Microseconds for one tensor.
  double run(Block block) {
    double spent = 0;
    for (std::uint32_t i = 0; i < block.operations; ++i)
      spent += hand_over_.send([this] { rewrite(); }, [&] { move(block.variant); });
    return spent / block.operations / static_cast<double>(sources_.size());
  }

 private:
  void rewrite() {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      fill(sources_[i].data(), size_, iteration(hand_over_, size_, i));
  }

  void move(std::uint32_t variant) {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (variant == kWeft) {
        remote_.put(sources_[i]).wait().or_throw();
      } else {
        limit_copy(variant, bare_.data() + i * size_, sources_[i].data(), size_);
        raise_to(bare_.flags().announced, ++announced_);
      }
    }
  }

  std::size_t size_;
  const SharedMemory& bare_;
  HandOver hand_over_;
  RemoteSlot remote_;
  std::vector<Tensor> sources_;
  std::uint64_t announced_ = 0;
};

/// Rank 1: takes what the sender moves and, if asked to, reads it.
class Receiver {
 public:
  Receiver(World& world, const SharedMemory& bare, std::size_t size, bool check)
      : size_(size),
        check_(check),
        bare_(bare),
        hand_over_(bare.flags(), bare.their_flags()),
        slot_(world.expose(spec_for(size))),
        kept_(depth_for(size)) {}

  double run(Block block, bool touched) {
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      const bool checks = check_ && hand_over_.number() % kCheckEvery == 0;
      hand_over_.receive([] {}, [&] { take(block.variant, touched, checks); },
                         [&] {
                           if (checks) inspect(block.variant);
                         });
    }
    return 0;
  }

 private:
  void take(std::uint32_t variant, bool touched, bool keeps) {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (variant == kWeft) {
        Arrival arrival = slot_.wait().value();
        if (touched) touch(arrival.tensor().data(), size_);
        if (keeps) kept_[i] = std::move(arrival);
      } else {
        await(bare_.their_flags().announced, ++announced_, kYield);
        if (touched) touch(bare_.their_data() + i * size_, size_);
      }
    }
  }

  void inspect(std::uint32_t variant) {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const std::byte* data =
          variant == kWeft ? kept_[i].tensor().data() : bare_.their_data() + i * size_;
      require_data(holds(data, size_, iteration(hand_over_, size_, i)), size_, hand_over_.number());
      kept_[i].release();
    }
  }

  std::size_t size_;
  bool check_;
  const SharedMemory& bare_;
  HandOver hand_over_;
  Slot slot_;
  std::vector<Arrival> kept_;
  std::uint64_t announced_ = 0;
};

void lead(World& world, const SharedMemory& bare, std::size_t size, const RunOptions& options,
          std::vector<RunRow>& rows) {
  Conductor conductor(bare.flags(), bare.their_flags());
  Sender sender(world, bare, size);
  constexpr std::uint32_t kWays[] = {kLimit, kLimitStreamed};
  for (const std::string_view kind : {kUntouched, kTouched})
    rows.push_back(measure_against_limit(conductor, kWays, {.budget = options.budget}, size, kind,
                                         [&](Block block) { return sender.run(block); }));
}

void follow(World& world, const SharedMemory& bare, std::size_t size, const RunOptions& options) {
  Conductor conductor(bare.flags(), bare.their_flags());
  Receiver receiver(world, bare, size, options.check);
  for (const std::string_view kind : {kUntouched, kTouched})
    conductor.follow([&](Block block) { return receiver.run(block, kind == kTouched); });
}

}  // namespace

std::vector<RunRow> measure_put_bandwidth(World& world, const RunOptions& options) {
  std::vector<RunRow> rows;
  const bool leads = world.rank() == 0;
  for (const std::size_t size : options.sizes) {
    const SharedMemory bare(world, 1 - world.rank(), "bench.put-bw." + std::to_string(size),
                            leads ? depth_for(size) * size : 0);
    if (leads)
      lead(world, bare, size, options, rows);
    else
      follow(world, bare, size, options);
  }
  return rows;
}

}  // namespace weft::bench
