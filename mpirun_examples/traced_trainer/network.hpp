// A network with one hidden layer as an engine of its own would have it: nodes that allocate their
// outputs, one that works in place, and gradients in one piece of memory.
#pragma once

#include <cstdint>

#include "weft/tracing.hpp"

namespace traced {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kHidden = 64;

/// The tensors of one example batch.
struct Batch {
  weft::Tensor inputs;   ///< f32[rows, kInputs]
  weft::Tensor targets;  ///< f32[rows]
};

class Network {
 public:
  explicit Network(weft::dataflow::TracingAllocator& memory);

  /// Random points of the function to be learnt; `rows` may differ from call to call.
  Batch draw(std::int64_t rows, std::uint64_t seed);
  /// The mean squared error, and the gradient: f32[parameters()], not yet divided by the rows.
  double step(const Batch& batch, weft::Tensor& gradient);
  /// Divides the gradient in place: no memory is allocated, so a tensor that is sent afterwards is
  /// still one of the node that allocated it.
  void scale(const weft::Tensor& gradient, float factor);
  /// Adds both gradients, times -rate, to the parameters.
  void apply(const weft::Tensor& own, const weft::Tensor& other, float rate);

  static constexpr std::int64_t parameters() { return kHidden * (kInputs + 2); }

 private:
  weft::dataflow::TracingAllocator& memory_;
  weft::Tensor weights_;  ///< kHidden rows of inputs, then biases, then the output's weights
};

}  // namespace traced
