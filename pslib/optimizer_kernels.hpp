// One pass over memory that averages the workers' gradients and applies the update rule.
#pragma once

#include <cstddef>
#include <span>

namespace weft::pslib::kernels {

/// The workers' gradients of one run of elements, where they lie. They are added in the listed
/// order, element by element, and the sum is multiplied by 1 / sources.size().
/// Any alignment; at least one source; none overlaps what is updated.
using Gradients = std::span<const float* const>;

// An element's result has the same bits wherever a run is cut and however it is aligned, on one
// machine: head, body and tail do the same vector arithmetic. Machines may differ (fused
// multiply-add). Arrays hold `count` elements.

/// p -= learning_rate g
void sgd(float* parameters, Gradients gradients, std::size_t count, float learning_rate) noexcept;

/// v = momentum v + g; p -= learning_rate v
void momentum(float* parameters, float* velocity, Gradients gradients, std::size_t count,
              float learning_rate, float momentum) noexcept;

/// One step's constants; the bias corrections are folded in.
struct AdamStep {
  float beta1;
  float beta2;
  float rate;          ///< learning_rate / (1 - beta1^t)
  float second_scale;  ///< 1 / (1 - beta2^t)
  float epsilon;
};

/// m = beta1 m + (1 - beta1) g; s = beta2 s + (1 - beta2) g^2;
/// p -= rate m / (sqrt(second_scale s) + epsilon)
void adam(float* parameters, float* first_moment, float* second_moment, Gradients gradients,
          std::size_t count, const AdamStep& step) noexcept;

}  // namespace weft::pslib::kernels
