// An update rule as it is applied to runs of elements, whatever table they are of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pslib/optimizer/kernels.hpp"
#include "weft/optimizer.hpp"

namespace weft::pslib {

/// What one update has in common for all elements.
struct RuleConstants {
  kernels::Constants kernel;
  RuleStep told;  ///< to a rule of the user's own
};

/// Thread-safety: one thread at a time.
class AppliedRule {
 public:
  /// For runs of up to `longest` elements. Throws std::bad_alloc.
  AppliedRule(const Optimizer& rule, const Schedule& schedule, std::size_t longest);

  const Optimizer& rule() const noexcept { return rule_; }
  /// Of update `update`, counted from 1; the sum of gradients is multiplied by `scale`.
  RuleConstants constants(std::uint64_t update, float scale) const noexcept;
  void apply(const RuleConstants& constants, const kernels::Arrays& arrays,
             kernels::Gradients gradients, std::size_t count) noexcept;

 private:
  const Optimizer rule_;
  const Schedule schedule_;
  const kernels::Update kernel_;  // null for a rule of the user's own
  std::vector<float> averaged_;   // for that one
};

}  // namespace weft::pslib
