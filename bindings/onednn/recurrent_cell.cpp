#include "bindings/onednn/recurrent_cell.hpp"

#include <algorithm>
#include <array>

namespace weft::dataflow::onednn {
namespace {

dnnl::rnn_direction direction_of(const std::string& direction) {
  if (direction == "forward") return dnnl::rnn_direction::unidirectional_left2right;
  if (direction == "reverse") return dnnl::rnn_direction::unidirectional_right2left;
  return dnnl::rnn_direction::bidirectional_concat;
}

}  // namespace

Cell::Cell(const Operands& operands, Kind kind)
    : kind_(kind),
      direction_(direction_of(operands.attributes().word("direction"))),
      directions_(operands.shape(1)[0]),
      steps_(operands.shape(0)[0]),
      batch_(operands.shape(0)[1]),
      inputs_(operands.shape(0)[2]),
      hidden_(operands.attributes().integer("hidden_size")) {}

Desc Cell::sequence() const {
  if (directions_ == 1) return layer();
  return {{steps_, batch_, directions_, hidden_},
          dnnl::memory::data_type::f32,
          Dims{directions_ * batch_ * hidden_, hidden_, batch_ * hidden_, 1}};
}

Desc Cell::weights_of(std::int64_t inputs) const {
  return {{1, directions_, inputs, gates(), hidden_},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::ldgoi};
}

Desc Cell::any_weights(std::int64_t inputs) const {
  return any_layout({1, directions_, inputs, gates(), hidden_});
}

dnnl::primitive_desc Cell::forward(dnnl::prop_kind kind, const dnnl::engine& engine) const {
  const Desc w = any_weights(inputs_);
  const Desc r = any_weights(hidden_);
  const auto attributes = own_scratchpad();
  if (kind_ == Kind::lstm)
    return dnnl::lstm_forward::primitive_desc(
        dnnl::lstm_forward::desc(kind, direction_, input(), state(), state(), w, r, bias(), layer(),
                                 state(), state()),
        attributes, engine);
  if (kind_ == Kind::gru)
    return dnnl::gru_forward::primitive_desc(
        dnnl::gru_forward::desc(kind, direction_, input(), state(), w, r, bias(), layer(), state()),
        attributes, engine);
  return dnnl::lbr_gru_forward::primitive_desc(
      dnnl::lbr_gru_forward::desc(kind, direction_, input(), state(), w, r, bias(), layer(),
                                  state()),
      attributes, engine);
}

dnnl::primitive_desc Cell::backward(const dnnl::engine& engine) const {
  const Desc w = any_weights(inputs_);
  const Desc r = any_weights(hidden_);
  const auto attributes = own_scratchpad();
  const auto kind = dnnl::prop_kind::backward;
  const auto before = forward(dnnl::prop_kind::forward_training, engine);
  // As a hint, the descriptor's own type; it shares what `before` has.
  const auto hint = [&]<typename Forward>(Forward) {
    typename Forward::primitive_desc own;
    static_cast<dnnl::handle<dnnl_primitive_desc_t>&>(own) = before;
    return own;
  };
  if (kind_ == Kind::lstm)
    return dnnl::lstm_backward::primitive_desc(
        dnnl::lstm_backward::desc(kind, direction_, input(), state(), state(), w, r, bias(),
                                  layer(), state(), state(), input(), state(), state(), w, r,
                                  bias(), layer(), state(), state()),
        attributes, engine, hint(dnnl::lstm_forward()));
  if (kind_ == Kind::gru)
    return dnnl::gru_backward::primitive_desc(
        dnnl::gru_backward::desc(kind, direction_, input(), state(), w, r, bias(), layer(), state(),
                                 input(), state(), w, r, bias(), layer(), state()),
        attributes, engine, hint(dnnl::gru_forward()));
  return dnnl::lbr_gru_backward::primitive_desc(
      dnnl::lbr_gru_backward::desc(kind, direction_, input(), state(), w, r, bias(), layer(),
                                   state(), input(), state(), w, r, bias(), layer(), state()),
      attributes, engine, hint(dnnl::lbr_gru_forward()));
}

std::int64_t Cell::onnx_gate(std::int64_t gate) const noexcept {
  // oneDNN: input, forget, cell, output. ONNX: input, output, forget, cell. GRU: equal.
  constexpr std::array<std::int64_t, 4> kLstm{0, 2, 3, 1};
  return kind_ == Kind::lstm ? kLstm[static_cast<std::size_t>(gate)] : gate;
}

void Cell::to_onednn(float* to, const float* from, std::size_t count) const {
  const std::int64_t of_gate = static_cast<std::int64_t>(count) / (directions_ * gates());
  for (std::int64_t d = 0; d < directions_; ++d)
    for (std::int64_t gate = 0; gate < gates(); ++gate)
      std::copy_n(from + (d * gates() + onnx_gate(gate)) * of_gate, of_gate,
                  to + (d * gates() + gate) * of_gate);
}

void Cell::to_onnx(float* to, const float* from, std::size_t count) const {
  const std::int64_t of_gate = static_cast<std::int64_t>(count) / (directions_ * gates());
  for (std::int64_t d = 0; d < directions_; ++d)
    for (std::int64_t gate = 0; gate < gates(); ++gate)
      std::copy_n(from + (d * gates() + gate) * of_gate, of_gate,
                  to + (d * gates() + onnx_gate(gate)) * of_gate);
}

void Cell::bias_to_onednn(float* to, const float* from) const {
  for (std::int64_t d = 0; d < directions_; ++d) {
    const float* const of_w = from + d * 2 * gates() * hidden_;
    const float* const of_r = of_w + gates() * hidden_;
    float* const own = to + d * bias_gates() * hidden_;
    const std::int64_t summed = kind_ == Kind::lbr_gru ? 2 : gates();
    for (std::int64_t gate = 0; gate < summed; ++gate)
      for (std::int64_t i = 0; i < hidden_; ++i)
        own[gate * hidden_ + i] =
            of_w[onnx_gate(gate) * hidden_ + i] + of_r[onnx_gate(gate) * hidden_ + i];
    if (kind_ != Kind::lbr_gru) continue;
    std::copy_n(of_w + 2 * hidden_, hidden_, own + 2 * hidden_);
    std::copy_n(of_r + 2 * hidden_, hidden_, own + 3 * hidden_);
  }
}

void Cell::bias_to_onnx(float* to, const float* from) const {
  for (std::int64_t d = 0; d < directions_; ++d) {
    float* const of_w = to + d * 2 * gates() * hidden_;
    float* const of_r = of_w + gates() * hidden_;
    const float* const own = from + d * bias_gates() * hidden_;
    for (std::int64_t gate = 0; gate < gates(); ++gate) {
      const bool is_apart = kind_ == Kind::lbr_gru && gate == 2;
      std::copy_n(own + gate * hidden_, hidden_, of_w + onnx_gate(gate) * hidden_);
      std::copy_n(own + (is_apart ? 3 : gate) * hidden_, hidden_, of_r + onnx_gate(gate) * hidden_);
    }
  }
}

}  // namespace weft::dataflow::onednn
