// Steps of the models of the paper's table 1: two ranks are workers and shards at once, as in the
// paper. The limit is a bare loop that adds both ranks' gradients to each one's half of the
// parameters.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/bare_replay.hpp"
#include "benchmarks/workloads/models.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/pslib.hpp"

namespace weft::bench {
namespace {

/// One row: a model, and whether its parameters are pulled or read in place.
struct Work {
  const Model& model;
  std::string_view kind;

  std::string name() const { return std::string(model.name) + "." + std::string(kind); }
  std::uint64_t steps(const RunOptions& options) const {
    return replayed_steps(model.bytes(), options.budget.count());
  }
};

class Replay {
 public:
  Replay(pslib::ParameterServer& server, const Work& work, int rank)
      : work_(work), rank_(static_cast<std::uint64_t>(rank)), table_(make(server, work)) {
    for (const auto& spec : table_.specs()) {
      gradients_.push_back(table_.gradient(spec.name).as<float>());
      parameters_.push_back(table_.parameter(spec.name).as<float>());
      for (float& value : parameters_.back()) value = 0;
    }
    table_.initialize().or_throw();
  }

  /// Writes new gradients, updates, and reads every cache line of the parameters.
  void step() {
    ++steps_;
    for (const auto gradient : gradients_)
      fill_gradient(gradient.data(), gradient.size(), steps_ + rank_);
    expected_.add(steps_);
    expected_.add(steps_ + 1);
    table_.push().or_throw();
    if (work_.kind == kByPull)
      read_own();
    else
      read_in_place();
  }

  void check() {
    for (const pslib::ShardPiece& piece : table_.pieces())
      if (piece.first == 0)
        require_data(expected_.match(begin_of(piece), static_cast<std::size_t>(piece.count)),
                     work_.model.bytes(), steps_);
  }

 private:
  static pslib::Table make(pslib::ParameterServer& server, const Work& work) {
    std::vector<pslib::TensorSpec> specs;
    for (const auto& shape : work.model.shapes)
      specs.push_back({std::to_string(specs.size()), Shape{std::span<const std::int64_t>(shape)}});
    // The mean of two gradients at a learning rate of 2 is their sum.
    return server.table(work.name(), specs, pslib::Optimizer::sgd(2.0F));
  }

  void read_own() {
    table_.pull().or_throw();
    for (const auto parameters : parameters_) touch(parameters.data(), parameters.size_bytes());
  }

  void read_in_place() {
    table_.wait_updated().or_throw();
    for (const pslib::ShardPiece& piece : table_.pieces()) {
      const auto bytes = table_.view_piece(piece).value().bytes();
      touch(bytes.data(), bytes.size());
    }
  }

  const float* begin_of(const pslib::ShardPiece& piece) {
    return work_.kind == kByPull ? parameters_[piece.tensor].data()
                                 : table_.view_piece(piece).value().values().data();
  }

  const Work& work_;
  std::uint64_t rank_;
  pslib::Table table_;
  std::vector<std::span<float>> gradients_;
  std::vector<std::span<float>> parameters_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
};

RunRow measure(World& world, pslib::ParameterServer& server, const RunOptions& options,
               const Work& work) {
  double weft = 0;
  {
    Replay replay(server, work, world.rank());
    weft = time_of_steps(work.steps(options), [&] { replay.step(); });
    if (options.check) replay.check();
  }
  BareReplay bare(world, options, work.name(), work.model.bytes(), work.kind == kByPull);
  const double limit = time_of_steps(work.steps(options), [&] { bare.step(); });
  RunRow row = compared(work.model.bytes(), work.name(), {&weft, 1}, {&limit, 1});
  row.figures["steps_per_s"] = 1e6 / weft;
  return row;
}

}  // namespace

std::vector<RunRow> measure_replay(World& world, const RunOptions& options) {
  pslib::ParameterServer server(world, {}, "replay");
  std::vector<RunRow> rows;
  for (const std::size_t bytes : options.sizes)
    for (const std::string_view kind : {kByPull, kByView})
      rows.push_back(measure(world, server, options, Work{model_of(bytes), kind}));
  return rows;
}

}  // namespace weft::bench
