// Applies an update rule to runs of elements of any table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pslib/optimizer/kernels.hpp"
#include "weft/optimizer.hpp"

namespace weft::pslib {

/// Constants of one update, equal for all elements.
struct RuleConstants {
  kernels::Constants kernel;
  RuleStep told;  ///< for a user's own rule
};

/// The factor of lars on the learning rate, from the squared norms of a tensor's parameters and of
/// its gradient, which `scale` multiplies.
float trust_ratio(const Optimizer& rule, double parameters, double gradient, float scale) noexcept;

/// Not thread-safe.
class AppliedRule {
 public:
  /// For runs of at most `longest` elements. Throws std::bad_alloc.
  AppliedRule(const Optimizer& rule, const Schedule& schedule, std::size_t longest);

  const Optimizer& rule() const noexcept { return rule_; }
  /// Constants of update number `update`, counted from 1; `scale` multiplies the sum of gradients.
  RuleConstants constants(std::uint64_t update, float scale) const noexcept;
  void apply(const RuleConstants& constants, const kernels::Arrays& arrays,
             kernels::Gradients gradients, std::size_t count) noexcept;

 private:
  const Optimizer rule_;
  const Schedule schedule_;
  const kernels::Update kernel_;  // null for a user's own rule
  std::vector<float> averaged_;   // for a user's own rule
};

}  // namespace weft::pslib
