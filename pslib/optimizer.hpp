// An update rule with its state: what a shard applies to its region, step by step.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <string>

#include "pslib/optimizer_kernels.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Throws Error(bad_argument) for a constant with which the rule makes no sense, naming it, its
/// value and what is accepted.
void check(const Optimizer& optimizer);

/// The rule and its constants, as users read them: "adam(learning_rate 0.001, beta1 0.9, ...)".
std::string text(const Optimizer& optimizer);

/// The rule of one shard. The state is as large as the shard's region and starts as zeros.
/// Thread-safety: one thread at a time.
class Updater {
 public:
  /// Throws std::bad_alloc. `optimizer` has passed check().
  Updater(const Optimizer& optimizer, std::int64_t elements);

  /// Once per step, before its first apply().
  void begin_step() noexcept;
  /// Updates `count` parameters that lie at `offset` in the region.
  void apply(float* parameters, std::int64_t offset, kernels::Gradients gradients,
             std::int64_t count) noexcept;

 private:
  Optimizer optimizer_;
  std::uint64_t step_ = 0;
  kernels::AdamStep adam_{};
  hwy::AlignedFreeUniquePtr<float[]> first_;   // velocity, or the first moment
  hwy::AlignedFreeUniquePtr<float[]> second_;  // the second moment
};

}  // namespace weft::pslib
