// One pass over memory that averages the workers' gradients and applies an update rule.
#pragma once

#include <cstddef>
#include <span>

#include "weft/optimizer.hpp"

namespace weft::pslib::kernels {

/// The workers' gradients of one run of elements, where they lie. They are added in the listed
/// order, element by element. Any alignment; at least one source; none overlaps what is updated.
using Gradients = std::span<const float* const>;

// An element's result has the same bits wherever a run is cut and however it is aligned, on one
// machine: head, body and tail do the same vector arithmetic. Machines may differ (fused
// multiply-add).

/// What is updated, `count` elements each. States that the rule does not have are null.
struct Arrays {
  const float* from = nullptr;  ///< the parameters before; may be `to`
  float* to = nullptr;
  float* first = nullptr;   ///< velocity, first moment, ftrl's z; of adagrad and rmsprop s
  float* second = nullptr;  ///< second moment, ftrl's n
};

/// An update's constants, as Optimizer names them; those that a rule does not have don't count.
struct Constants {
  float scale = 1.0F;  ///< what the sum of gradients is multiplied by
  float rate = 0.0F;   ///< the learning rate; of adam and adamw / (1 - beta1^t), of lars times r
  float weight_decay = 0.0F;
  float keep1 = 0.0F;         ///< momentum, beta1
  float keep2 = 0.0F;         ///< rho, beta2
  float second_scale = 1.0F;  ///< 1 / (1 - beta2^t)
  float epsilon = 0.0F;
  float shrink = 1.0F;  ///< adamw: 1 - lr wd
  float beta = 0.0F;    ///< ftrl's, as l1 and l2
  float l1 = 0.0F;
  float l2 = 0.0F;
};

using Update = void (*)(const Arrays& arrays, Gradients gradients, std::size_t count,
                        const Constants& constants);

/// Null for Kind::user.
Update update_for(Optimizer::Kind kind) noexcept;

/// to[i] = scale times the sum of the sources; `to` may be the first source.
void average(float* to, Gradients gradients, std::size_t count, float scale) noexcept;

}  // namespace weft::pslib::kernels
