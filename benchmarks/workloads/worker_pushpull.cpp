// A training step's traffic through pslib: one gradient pushed, the parameters read in place or
// pulled into the worker's own tensor. The limit is a bare loop that adds the gradient to the
// parameters between two flags, with a copy if weft pulls.
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "benchmarks/harness/hand_over.hpp"
#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/pslib.hpp"

namespace weft::bench {
namespace {

const std::string kTensor = "parameters";
constexpr std::chrono::milliseconds kWarmUp{20};

// While weft has its turn, the server's other thread must leave the core to it.
constexpr Idle kSleep{1, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }};

/// One row: a size, and how the worker gets the parameters.
struct Work {
  std::size_t size = 0;
  std::string_view kind;

  bool pulls() const { return kind == kByPull; }
  std::string name() const { return "bench." + std::string(kind) + "." + std::to_string(size); }
};

std::vector<Work> work_of(const RunOptions& options) {
  std::vector<Work> all;
  for (const std::size_t size : options.sizes) {
    if (options.benchmark == kPushPull) {
      all.push_back({size, kTouched});
      continue;
    }
    all.push_back({size, kByPull});
    all.push_back({size, kByView});
  }
  return all;
}

pslib::Table make_table(pslib::ParameterServer& server, const Work& work) {
  const std::size_t size = work.size;
  return server.table(work.name(),
                      {{kTensor, Shape{static_cast<std::int64_t>(size / sizeof(float))}}},
                      pslib::Optimizer::sgd(1.0F));
}

/// Rank 0: pushes gradients and reads the resulting parameters.
class Worker {
 public:
  Worker(pslib::Table table, const SharedMemory& bare, const Work& work, bool check)
      : size_(work.size),
        count_(size_ / sizeof(float)),
        pulls_(work.pulls()),
        check_(check),
        bare_(bare),
        hand_over_(bare.flags(), bare.their_flags(), bare.idle()),
        table_(std::move(table)),
        gradient_(table_.gradient(kTensor).as<float>()),
        parameters_(table_.parameter(kTensor).as<float>()) {
    for (float& value : parameters_) value = 0;
    if (pulls_) bare_parameters_.resize(count_);
    table_.initialize().or_throw();
  }

  /// Runs until the processors and the server are awake; otherwise the first row would pay for
  /// that.
  void warm_up() {
    const auto end = std::chrono::steady_clock::now() + kWarmUp;
    do {
      through_weft();
    } while (std::chrono::steady_clock::now() < end);
  }

  /// Returns microseconds for a gradient there and the parameters back.
  double run(Block block) {
    double spent = 0;
    for (std::uint32_t i = 0; i < block.operations; ++i)
      spent += block.variant == kWeft ? through_weft() : through_bare_memory();
    return spent / block.operations;
  }

 private:
  double through_weft() {
    fill_gradient(gradient_.data(), count_, ++steps_);
    const auto start = std::chrono::steady_clock::now();
    const float* const parameters = step();
    touch(parameters, size_);
    const auto spent = std::chrono::steady_clock::now() - start;
    expected_.add(steps_);
    check(expected_, parameters, steps_);
    return std::chrono::duration<double, std::micro>(spent).count();
  }

  /// Returns the address of the new parameters.
  const float* step() {
    table_.push().or_throw();
    if (pulls_) {
      table_.pull().or_throw();
      return parameters_.data();
    }
    table_.wait_updated().or_throw();
    return table_.view(kTensor).value().values().data();
  }

  double through_bare_memory() {
    auto* gradient = reinterpret_cast<float*>(bare_.data());
    const auto* theirs = reinterpret_cast<const float*>(bare_.their_data());
    const float* const parameters = pulls_ ? bare_parameters_.data() : theirs;
    const double spent =
        hand_over_.send([&] { fill_gradient(gradient, count_, hand_over_.number()); },
                        [&] {
                          raise_to(bare_.flags().announced, hand_over_.number());
                          await(bare_.their_flags().announced, hand_over_.number(), bare_.idle());
                          if (pulls_) std::memcpy(bare_parameters_.data(), theirs, size_);
                          touch(parameters, size_);
                        });
    expected_bare_.add(hand_over_.number());
    check(expected_bare_, parameters, hand_over_.number());
    return spent;
  }

  void check(const ExpectedParameters& expected, const float* parameters, std::uint64_t step) {
    if (check_ && step % kCheckEvery == 0)
      require_data(expected.match(parameters, count_), size_, step);
  }

  std::size_t size_;
  std::size_t count_;
  bool pulls_;
  bool check_;
  const SharedMemory& bare_;
  HandOver hand_over_;
  pslib::Table table_;
  std::span<float> gradient_;
  std::span<float> parameters_;
  std::vector<float> bare_parameters_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
  ExpectedParameters expected_bare_;
};

/// Rank 1 in the limit: adds the gradients that the worker announces. Acknowledges at once: the
/// worker's clock stops when it has read the parameters.
void serve_bare(const SharedMemory& bare, std::size_t size) {
  auto* parameters = reinterpret_cast<float*>(bare.data());
  const auto* gradient = reinterpret_cast<const float*>(bare.their_data());
  Conductor conductor(bare.flags(), bare.their_flags(), kSleep);
  HandOver hand_over(bare.flags(), bare.their_flags(), bare.idle());
  conductor.follow([&](Block block) {
    for (std::uint32_t i = 0; block.variant == kLimit && i < block.operations; ++i)
      hand_over.receive([] {},
                        [&] {
                          await(bare.their_flags().announced, hand_over.number(), bare.idle());
                          apply_gradient(parameters, gradient, size / sizeof(float));
                          raise_to(bare.flags().announced, hand_over.number());
                        },
                        [] {});
    return 0.0;
  });
}

RunRow lead(pslib::ParameterServer& server, const SharedMemory& bare, const Work& work,
            const RunOptions& options) {
  Conductor conductor(bare.flags(), bare.their_flags(), bare.idle());
  Worker worker(make_table(server, work), bare, work, options.check);
  worker.warm_up();
  return measure_against_limit(conductor, kNoCopy, {.budget = options.budget}, work.size, work.kind,
                               [&](Block block) { return worker.run(block); });
}

void serve(pslib::ParameterServer& server, const SharedMemory& bare, const Work& work) {
  pslib::Table table = make_table(server, work);
  pslib::Table* const tables[] = {&table};
  const std::jthread limit([&] { serve_bare(bare, work.size); });
  server.serve(tables).or_throw();
}

}  // namespace

std::vector<RunRow> measure_push_pull(World& world, const RunOptions& options) {
  if (options.benchmark == kPsDense && !share_memory(world))
    return measure_wire_push_pull(world, options);
  pslib::ParameterServer server(world, {.workers = {0}, .servers = {1}, .split_bytes = SIZE_MAX},
                                "bench");
  std::vector<RunRow> rows;
  for (const Work& work : work_of(options)) {
    const SharedMemory bare(world, options, "bare." + work.name(), work.size);
    if (world.rank() == 0)
      rows.push_back(lead(server, bare, work, options));
    else
      serve(server, bare, work);
  }
  return rows;
}

}  // namespace weft::bench
