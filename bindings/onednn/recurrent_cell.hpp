// The sizes, layouts and gates of a recurrent operator, in ONNX and in oneDNN.
#pragma once

#include <cstdint>

#include "bindings/onednn/routine.hpp"

namespace weft::dataflow::onednn {

/// ONNX has weights of [directions, gates x hidden, inputs]; so they are to oneDNN, as dimensions
/// (layer, direction, input, gate, output) in the order ldgoi. Both have the same gates, those of
/// an LSTM in another order.
class Cell {
 public:
  enum class Kind : std::uint8_t {
    lstm,
    gru,
    lbr_gru  ///< a GRU with linear_before_reset
  };

  Cell(const Operands& operands, Kind kind);

  std::int64_t directions() const noexcept { return directions_; }
  bool has_c() const noexcept { return kind_ == Kind::lstm; }
  bool has_onnx_order() const noexcept { return kind_ != Kind::lstm; }

  Desc input() const { return row_major({steps_, batch_, inputs_}); }
  /// Y as oneDNN has it: directions side by side.
  Desc layer() const { return row_major({steps_, batch_, directions_ * hidden_}); }
  /// layer() with a dimension for the directions, and ONNX's Y as the same sizes.
  Desc layer_by_direction() const { return row_major({steps_, batch_, directions_, hidden_}); }
  Desc sequence() const;
  Desc state() const { return row_major({1, directions_, batch_, hidden_}); }
  Desc weights() const { return weights_of(inputs_); }
  Desc recurrence() const { return weights_of(hidden_); }
  Desc bias() const { return row_major({1, directions_, bias_gates(), hidden_}); }

  dnnl::primitive_desc forward(dnnl::prop_kind kind, const dnnl::engine& engine) const;
  dnnl::primitive_desc backward(const dnnl::engine& engine) const;

  /// Copies `count` weights between the orders of gates.
  void to_onednn(float* to, const float* from, std::size_t count) const;
  void to_onnx(float* to, const float* from, std::size_t count) const;
  /// `from`: ONNX's biases of W and of R, one behind the other, for each direction.
  void bias_to_onednn(float* to, const float* from) const;
  void bias_to_onnx(float* to, const float* from) const;

 private:
  std::int64_t gates() const noexcept { return kind_ == Kind::lstm ? 4 : 3; }
  /// With linear_before_reset the two biases of the last gate stay apart.
  std::int64_t bias_gates() const noexcept { return kind_ == Kind::gru ? 3 : 4; }
  /// The place in ONNX's order of oneDNN's gate `gate`.
  std::int64_t onnx_gate(std::int64_t gate) const noexcept;
  Desc weights_of(std::int64_t inputs) const;
  Desc any_weights(std::int64_t inputs) const;

  Kind kind_;
  dnnl::rnn_direction direction_;
  std::int64_t directions_, steps_, batch_, inputs_, hidden_;
};

}  // namespace weft::dataflow::onednn
