// A small model for the tests of tables: linear regression on a batch that the workers share.
#pragma once

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "tests/support/ranks.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {

using Floats = std::vector<float>;

/// y = W x + b over kSamples samples, which any of 1 to 6, 8, 10 and 12 workers share evenly.
class Regression {
 public:
  static constexpr int kInputs = 19;
  static constexpr int kOutputs = 7;
  static constexpr int kSamples = 120;

  Regression() {
    std::mt19937 random(20);
    std::normal_distribution<float> normal;
    for (auto* values : {&x_, &y_}) {
      values->resize(static_cast<std::size_t>(kSamples * (values == &x_ ? kInputs : kOutputs)));
      std::ranges::generate(*values, [&] { return normal(random); });
    }
  }

  static std::vector<pslib::TensorSpec> specs() {
    return {{"weight", Shape{kOutputs, kInputs}}, {"bias", Shape{kOutputs}}};
  }

  /// The mean gradient over share `part` of `parts` of the samples.
  void gradient(const pslib::Table& at, int part, int parts) const {
    const auto w = at.parameter("weight").as<float>();
    const auto b = at.parameter("bias").as<float>();
    const auto dw = at.gradient("weight").as<float>();
    const auto db = at.gradient("bias").as<float>();
    std::ranges::fill(dw, 0.0F);
    std::ranges::fill(db, 0.0F);
    const int share = kSamples / parts;
    for (int sample = part * share; sample < (part + 1) * share; ++sample) {
      const std::span x(x_.data() + sample * kInputs, kInputs);
      for (int out = 0; out < kOutputs; ++out) {
        const std::span row = w.subspan(static_cast<std::size_t>(out * kInputs), kInputs);
        float error = b[static_cast<std::size_t>(out)] -
                      y_[static_cast<std::size_t>(sample * kOutputs + out)];
        for (std::size_t in = 0; in < x.size(); ++in) error += row[in] * x[in];
        error /= static_cast<float>(share);
        db[static_cast<std::size_t>(out)] += error;
        for (std::size_t in = 0; in < x.size(); ++in)
          dw[static_cast<std::size_t>(out * kInputs) + in] += error * x[in];
      }
    }
  }

 private:
  Floats x_;
  Floats y_;
};

/// Every parameter of a worker's copy, one tensor after the other.
inline Floats parameters(const pslib::Table& table) {
  Floats all;
  for (const auto& spec : table.specs()) {
    const auto values = table.parameter(spec.name).as<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Fills a worker's copy with values that identify the rank.
inline void fill_parameters(const pslib::Table& table, int rank) {
  for (const auto& spec : table.specs()) {
    const auto values = table.parameter(spec.name).as<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 0.01F * static_cast<float>(i % 17) + static_cast<float>(rank);
  }
}

inline int index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

/// The parameters of a training run.
struct Job {
  int ranks = 1;
  pslib::Options options;  ///< empty lists: every rank works and serves
  pslib::Optimizer optimizer = pslib::Optimizer::sgd(0.1F);
  int steps = 25;
  Config config = settings();
};

/// Trains on every rank of an in-process job. Returns the final parameters of each rank; a rank
/// that only serves has none.
inline std::vector<Floats> train(Job job) {
  const Regression model;
  std::vector<Floats> outcome(static_cast<std::size_t>(job.ranks));
  if (job.options.workers.empty())
    for (int rank = 0; rank < job.ranks; ++rank) job.options.workers.push_back(rank);
  const auto& workers = job.options.workers;
  run_on(job.ranks, job.config, [&](World& world) {
    pslib::ParameterServer server(world, job.options);
    pslib::Table table = server.table("model", Regression::specs(), job.optimizer);
    const int part = index_of(workers, world.rank());
    const int parts = static_cast<int>(workers.size());
    if (part == parts) {
      pslib::Table* const tables[] = {&table};
      server.serve(tables).or_throw();
    } else {
      if (part == 0) fill_parameters(table, 0);
      table.initialize().or_throw();
      for (int step = 0; step < job.steps; ++step) {
        model.gradient(table, part, parts);
        table.push_pull().or_throw();
      }
      outcome[static_cast<std::size_t>(world.rank())] = parameters(table);
    }
    world.leave().or_throw();
  });
  return outcome;
}

}  // namespace weft::tests
