// Random operations of workers on a sparse table, drawn from a seed, and the rows that the workers
// must see.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/threads/pslib/sparse_reference.hpp"
#include "tests/threads/pslib/training.hpp"

namespace weft::tests {

/// The operations of every worker in a step, and the rows that it must see, as the servers hold
/// them.
struct Step {
  bool in_one_call = false;  ///< the push and the next step's lookup
  std::vector<Ids> looked_up;
  std::vector<Push> pushed;
  std::vector<Floats> expected;
};

class History {
 public:
  static constexpr std::size_t kTurn = 3;

  /// `wires` take turns, for kTurn steps each.
  History(unsigned seed, std::size_t workers, std::vector<DType> wires = {DType::f32})
      : random_(seed), wires_(std::move(wires)) {
    options_.wire = wires_.front();
    options_.dim = 1 + random_() % 20;
    options_.optimizer = any_rule();
    options_.seed = random_();
    options_.spread = 0.5F;
    options_.admit_after = static_cast<std::uint32_t>(random_() % 3);
    options_.expire_after = random_() % 2 * (1 + random_() % 4);
    options_.request_rows = random_() % 2 == 0 ? 4096 : 1 + random_() % 12;
    SerialTable model(options_);
    for (std::size_t i = 0; i < 12; ++i) {
      Step& step = steps_.emplace_back();
      step.in_one_call = i > 0 && random_() % 2 == 0;
      if (i > 0) model.update(steps_[i - 1].pushed, wire_of(i - 1));
      for (std::size_t worker = 0; worker < workers; ++worker) {
        step.looked_up.push_back(any_ids());
        step.expected.push_back(model.look_up(step.looked_up.back()));
        Push& push = step.pushed.emplace_back();
        push.ids = random_() % 3 == 0 ? any_ids() : step.looked_up.back();
        push.gradients.resize(push.ids.size() * options_.dim);
        for (float& g : push.gradients) g = std::normal_distribution<float>()(random_);
      }
    }
  }

  const pslib::SparseOptions& options() const { return options_; }

  std::size_t steps() const { return steps_.size(); }
  DType wire_of(std::size_t step) const { return wires_[step / kTurn % wires_.size()]; }

  /// Runs the steps from the table's version up to `end`. The table's wire type is that of these
  /// steps.
  void replay(std::size_t worker, pslib::SparseTable& table, std::size_t end) const {
    const std::size_t begin = table.version();
    for (std::size_t i = begin; i < end; ++i) {
      const Step& step = steps_[i];
      const Ids& ids = step.looked_up[worker];
      Floats rows(ids.size() * options_.dim);
      const Push* const last = i > begin ? &steps_[i - 1].pushed[worker] : nullptr;
      if (step.in_one_call && last != nullptr) {
        table.push_lookup(last->ids, last->gradients, ids, rows).or_throw();
      } else {
        if (last != nullptr) table.push(last->ids, last->gradients).or_throw();
        table.lookup(ids, rows).or_throw();
      }
      ASSERT_EQ(rows, as_sent(step.expected[worker], wire_of(begin)))
          << "step " << i << ", worker " << worker;
    }
    EXPECT_EQ(table.version(), end - 1);
  }

 private:
  pslib::Optimizer any_rule() {
    switch (random_() % 5) {
      case 0:
        return pslib::Optimizer::sgd(0.1F);
      case 1:
        return pslib::Optimizer::adagrad(0.1F);
      case 2:
        return pslib::Optimizer::adam(0.01F);
      case 3:
        return pslib::Optimizer::ftrl(0.1F, 0.01F);
      default:
        return pslib::Optimizer::with_momentum(0.1F);
    }
  }
  // Random ids: often none, often the same one, some that differ only in high bits.
  Ids any_ids() {
    Ids ids(random_() % 4 == 0 ? 0 : random_() % 60);
    for (std::uint64_t& id : ids) {
      id = random_() % 40;
      if (random_() % 2 == 0) id <<= 57;
    }
    return ids;
  }

  std::mt19937 random_;
  std::vector<DType> wires_;
  pslib::SparseOptions options_;
  std::vector<Step> steps_;
};

}  // namespace weft::tests
