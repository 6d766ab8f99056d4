// Tensors requested by key, against two flag hops and the bare copy; and the forms of requests
// against each other: names or indexes, one or several requests per message.
#include <array>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/harness/cost.hpp"
#include "benchmarks/harness/hand_over.hpp"
#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/rendezvous.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kSeveral = 8;

/// A form of requests; its variant number follows the limit's.
struct Form {
  const char* name;
  bool indexes;
  bool batches;
};
constexpr std::array<Form, 3> kForms{Form{"batched", true, true}, Form{"indexed", true, false},
                                     Form{"plain", false, false}};
constexpr std::uint32_t kFirstForm = 10;
enum FormVariant : std::uint32_t { kBatched = kFirstForm, kIndexed, kPlain };

// The costs of a first exchange must not be measured.
constexpr Pace kOneExchange{.block = std::chrono::microseconds(1),
                            .budget = std::chrono::microseconds(0),
                            .least_rounds = 1};

std::string rendezvous_name(std::size_t size, std::size_t tensors, const Form& form) {
  return "bench" + std::to_string(size) + "x" + std::to_string(tensors) + form.name;
}

/// State of both ends: a rendezvous per form, keys, and the limit's memory.
class RendezvousExchange {
 public:
  RendezvousExchange(World& world, const SharedMemory& bare, std::size_t size, std::size_t tensors)
      : bare_(bare),
        size_(size),
        tensors_(tensors),
        hand_over_(bare.flags(), bare.their_flags(), bare.idle()) {
    for (const Form& form : kForms)
      forms_.push_back(Rendezvous::open(world, {.name = rendezvous_name(size, tensors, form),
                                                .index_keys = form.indexes,
                                                .batch_requests = form.batches}));
    for (std::size_t i = 0; i < tensors; ++i)
      keys_.push_back("layer" + std::to_string(i) + "/activations:0;edge_" + std::to_string(i));
  }

 protected:
  // kWeft stands for the first form that fits: with one tensor there is nothing to batch.
  Rendezvous& form(std::uint32_t variant) {
    return forms_[variant == kWeft ? (tensors_ == 1 ? kIndexed : kBatched) - kFirstForm
                                   : variant - kFirstForm];
  }
  static bool is_limit(std::uint32_t variant) {
    return variant == kLimit || variant == kLimitStreamed;
  }
  // Each way has memory of its own, as in copy_out_bytes().
  std::size_t place(std::uint32_t way, std::size_t tensor) const {
    return ((way - kLimit) * tensors_ + tensor) * size_;
  }
  std::uint64_t stamp(std::size_t tensor) const { return hand_over_.number() * tensors_ + tensor; }

  const SharedMemory& bare_;
  std::size_t size_;
  std::size_t tensors_;
  HandOver hand_over_;
  std::vector<Rendezvous> forms_;
  std::vector<std::string> keys_;
};

/// Rank 0: requests tensors and measures the time.
class Asker : RendezvousExchange {
 public:
  Asker(World& world, const SharedMemory& bare, std::size_t size, std::size_t tensors, bool check)
      : RendezvousExchange(world, bare, size, tensors), check_(check), received_(tensors) {
    for (const std::string& key : keys_) wanted_.push_back({.key = key});
  }

  /// Returns microseconds per tensor.
  double run(Block block) {
    double spent = 0;
    for (std::uint32_t i = 0; i < block.operations; ++i) {
      spent += hand_over_.send([] {}, [&] { ask(block.variant); });
      inspect(block.variant);
    }
    return spent / block.operations / static_cast<double>(tensors_);
  }

 private:
  void ask(std::uint32_t variant) {
    if (is_limit(variant)) {
      raise_to(bare_.flags().announced, hand_over_.number());
      await(bare_.their_flags().announced, hand_over_.number(), bare_.idle());
    } else {
      for (KeyStep& wanted : wanted_) wanted.step = hand_over_.number();
      auto results = form(variant).recv(1, wanted_);
      for (std::size_t i = 0; i < tensors_; ++i) received_[i] = std::move(results[i]).value();
    }
    for (std::size_t i = 0; i < tensors_; ++i) touch(result(variant, i), size_);
  }

  const std::byte* result(std::uint32_t variant, std::size_t tensor) const {
    return is_limit(variant) ? bare_.their_data() + place(variant, tensor)
                             : received_[tensor].tensor.data();
  }

  void inspect(std::uint32_t variant) {
    for (std::size_t i = 0; i < tensors_; ++i) {
      if (check_ && hand_over_.number() % kCheckEvery == 0)
        require_data(holds(result(variant, i), size_, stamp(i)), size_, hand_over_.number());
      received_[i] = {};
    }
  }

  bool check_;
  std::vector<KeyStep> wanted_;
  std::vector<Received> received_;
};

/// Rank 1: offers tensors and answers requests.
class Offerer : RendezvousExchange {
 public:
  Offerer(World& world, const SharedMemory& bare, std::size_t size, std::size_t tensors)
      : RendezvousExchange(world, bare, size, tensors) {
    for (std::size_t i = 0; i < tensors; ++i)
      sources_.push_back(world.allocate(DType::u8, Shape{static_cast<std::int64_t>(size)}));
  }

  void run(Block block) {
    for (std::uint32_t i = 0; i < block.operations; ++i)
      hand_over_.receive([&] { prepare(block.variant); }, [&] { answer(block.variant); }, [] {});
  }

 private:
  void prepare(std::uint32_t variant) {
    for (std::size_t i = 0; i < tensors_; ++i) fill(sources_[i].data(), size_, stamp(i));
    if (is_limit(variant)) return;
    for (std::size_t i = 0; i < tensors_; ++i)
      form(variant).send(0, keys_[i], hand_over_.number(), sources_[i]).or_throw();
  }

  void answer(std::uint32_t variant) {
    if (!is_limit(variant)) return form(variant).serve().or_throw();
    await(bare_.their_flags().announced, hand_over_.number(), bare_.idle());
    for (std::size_t i = 0; i < tensors_; ++i)
      limit_copy(variant, bare_.data() + place(variant, i), sources_[i].data(), size_);
    raise_to(bare_.flags().announced, hand_over_.number());
  }

  std::vector<Tensor> sources_;
};

RunRow lead(World& world, const SharedMemory& bare, std::size_t size, std::size_t tensors,
            const RunOptions& options) {
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  Asker asker(world, bare, size, tensors, options.check);
  const RunBlock run = [&asker](Block block) { return asker.run(block); };
  const bool one = tensors == 1;
  const Form& own = kForms[(one ? kIndexed : kBatched) - kFirstForm];
  std::map<std::string, std::uint32_t> others{{"plain", kPlain}};
  if (!one) others["indexed"] = kIndexed;

  constexpr std::uint32_t kEveryForm[] = {kBatched, kIndexed, kPlain};
  conductor.lead(kEveryForm, kOneExchange, run);
  const std::string name = rendezvous_name(size, tensors, own);
  const auto said_before = cost_of(world, "rdv." + name);
  const auto got_before = cost_of(world, "rendezvous." + name);
  RunRow row = measure_against_limit(conductor, kCopies, {.budget = options.budget}, size,
                                     one ? "one" : "eight", run, others);
  const auto said = cost_of(world, "rdv." + name) - said_before;
  const auto got = cost_of(world, "rendezvous." + name) - got_before;
  row.figures["requests"] =
      static_cast<double>(said.transfers) / static_cast<double>(got.transfers);
  row.figures["bytes_copied"] = static_cast<double>(got.bytes_copied);
  return row;
}

void follow(World& world, const SharedMemory& bare, std::size_t size, std::size_t tensors) {
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  Offerer offerer(world, bare, size, tensors);
  for (int series = 0; series < 2; ++series)
    conductor.follow([&](Block block) {
      offerer.run(block);
      return 0.0;
    });
}

}  // namespace

std::vector<RunRow> measure_rendezvous(World& world, const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes)
    for (const std::size_t tensors : {std::size_t{1}, kSeveral}) {
      const SharedMemory bare(
          world, options,
          "bench.rendezvous." + std::to_string(size) + "." + std::to_string(tensors),
          world.rank() == 1 ? std::size(kCopies) * tensors * size : 0);
      if (world.rank() == 0)
        rows.push_back(lead(world, bare, size, tensors, options));
      else
        follow(world, bare, size, tensors);
    }
  return rows;
}

}  // namespace weft::bench
