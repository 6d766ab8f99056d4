// Averages the workers' gradients and applies an update rule, in one pass over memory.
#pragma once

#include <cstddef>
#include <span>

#include "weft/optimizer.hpp"

namespace weft::pslib::kernels {

/// The workers' gradients of one run of elements, in place. Added in the listed order, element by
/// element. Any alignment; at least one source; none overlaps the updated arrays.
using Gradients = std::span<const float* const>;

// On one machine, an element's result has the same bits wherever a run is cut and however it is
// aligned: head, body and tail use the same vector arithmetic. Machines may differ (fused
// multiply-add).

/// The updated arrays, `count` elements each. States that the rule does not use are null.
struct Arrays {
  const float* from = nullptr;  ///< parameters before the update; may equal `to`
  float* to = nullptr;
  float* first = nullptr;   ///< velocity, first moment, ftrl's z, s of adagrad and rmsprop
  float* second = nullptr;  ///< second moment, ftrl's n
};

/// An update's constants, named as in Optimizer. A rule ignores those it does not use.
struct Constants {
  float scale = 1.0F;  ///< factor for the sum of gradients
  float rate = 0.0F;   ///< learning rate; adam, adamw: over 1 - beta1^t; lars: times r
  float weight_decay = 0.0F;
  float keep1 = 0.0F;         ///< momentum, beta1
  float keep2 = 0.0F;         ///< rho, beta2
  float second_scale = 1.0F;  ///< 1 / (1 - beta2^t)
  float epsilon = 0.0F;
  float shrink = 1.0F;  ///< adamw: 1 - lr wd
  float beta = 0.0F;    ///< of ftrl, as are l1 and l2
  float l1 = 0.0F;
  float l2 = 0.0F;
};

using Update = void (*)(const Arrays& arrays, Gradients gradients, std::size_t count,
                        const Constants& constants);

/// The kernel of a rule; null for Kind::user.
Update update_for(Optimizer::Kind kind) noexcept;

/// to[i] = scale * (sum of the sources at i). `to` may be the first source.
void average(float* to, Gradients gradients, std::size_t count, float scale) noexcept;

}  // namespace weft::pslib::kernels
