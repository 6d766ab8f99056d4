// LSTM and GRU over sequences.
#include <algorithm>
#include <array>
#include <cstring>

#include "bindings/onednn/kernel_set.hpp"
#include "bindings/onednn/recurrent_cell.hpp"

namespace weft::dataflow::onednn {
namespace {

constexpr std::size_t kWeights = 1;
constexpr std::size_t kRecurrence = 2;
constexpr std::size_t kBias = 3;

/// The routine of one node, forwards or backwards: slots by their part in the cell.
class Recurrence {
 public:
  Recurrence(Routine& routine, const Operands& operands, Cell::Kind kind)
      : routine_(routine), operands_(operands), cell_(operands, kind) {}

  /// Inputs X, W, R, B, sequence_lens (none), initial_h, initial_c; outputs Y, Y_h, Y_c.
  void build_forward() {
    const auto primitive = cell_.forward(dnnl::prop_kind::forward_inference, routine_.engine());
    Routine::Arguments arguments = common_arguments(primitive, 5);
    const auto y = routine_.output(0, cell_.sequence());
    const auto layer = cell_.directions() == 1 ? y : routine_.scratch(cell_.layer());
    arguments.emplace_back(DNNL_ARG_DST_LAYER, layer);
    arguments.emplace_back(DNNL_ARG_DST_ITER, routine_.output(1, cell_.state()));
    if (cell_.has_c())
      arguments.emplace_back(DNNL_ARG_DST_ITER_C, routine_.output(2, cell_.state()));
    routine_.run(dnnl::primitive(primitive), primitive.scratchpad_desc(), arguments);
    if (layer != y) routine_.reorder(routine_.view(layer, cell_.layer_by_direction()), y);
  }

  /// Inputs X, W, R, B, initial states, Y, and the gradients of Y, Y_h, Y_c; outputs the gradients
  /// of X, W, R, B and the initial states. The forward pass is run again for its workspace, which
  /// no tensor of the graph keeps.
  void build_backward() {
    const std::size_t states = cell_.has_c() ? 2 : 1;
    const auto forward = cell_.forward(dnnl::prop_kind::forward_training, routine_.engine());
    const auto backward = cell_.backward(routine_.engine());
    Routine::Arguments arguments = common_arguments(forward, 4);
    Routine::Arguments results{{DNNL_ARG_DST_LAYER, routine_.scratch(cell_.layer())},
                               {DNNL_ARG_DST_ITER, routine_.scratch(cell_.state())},
                               {DNNL_ARG_WORKSPACE, routine_.scratch(forward.workspace_desc())}};
    if (cell_.has_c()) results.emplace_back(DNNL_ARG_DST_ITER_C, routine_.scratch(cell_.state()));
    arguments.insert(arguments.end(), results.begin(), results.end());
    routine_.run(dnnl::primitive(forward), forward.scratchpad_desc(), arguments);

    use_weights_of(backward, arguments);
    const std::size_t gradients = 4 + states + 1;
    arguments.emplace_back(DNNL_ARG_DIFF_DST_LAYER, layer_gradient(gradients));
    arguments.emplace_back(DNNL_ARG_DIFF_DST_ITER, routine_.input(gradients + 1, cell_.state()));
    arguments.emplace_back(DNNL_ARG_DIFF_SRC_LAYER, routine_.output(0, cell_.input()));
    arguments.emplace_back(DNNL_ARG_DIFF_SRC_ITER, routine_.output(4, cell_.state()));
    if (cell_.has_c()) {
      arguments.emplace_back(DNNL_ARG_DIFF_DST_ITER_C,
                             routine_.input(gradients + 2, cell_.state()));
      arguments.emplace_back(DNNL_ARG_DIFF_SRC_ITER_C, routine_.output(5, cell_.state()));
    }
    // oneDNN adds to these.
    const auto weights = zeros(backward.diff_weights_desc(0));
    const auto recurrence = zeros(backward.diff_weights_desc(1));
    const auto bias = zeros(cell_.bias());
    arguments.emplace_back(DNNL_ARG_DIFF_WEIGHTS_LAYER, weights);
    arguments.emplace_back(DNNL_ARG_DIFF_WEIGHTS_ITER, recurrence);
    arguments.emplace_back(DNNL_ARG_DIFF_BIAS, bias);
    routine_.run(dnnl::primitive(backward), backward.scratchpad_desc(), arguments);
    deliver_weights(weights, 1, cell_.weights());
    deliver_weights(recurrence, 2, cell_.recurrence());
    deliver_bias(bias);
  }

 private:
  Routine::Slot zeros(const Desc& desc) {
    const auto slot = routine_.scratch(desc);
    routine_.zero(slot);
    return slot;
  }

  /// An initial state, zeros if it is left out.
  Routine::Slot initial(std::size_t i) {
    return operands_.has(i) ? routine_.input(i, cell_.state()) : zeros(cell_.state());
  }

  Routine::Arguments common_arguments(const dnnl::primitive_desc& primitive,
                                      std::size_t first_state) {
    weights_ = in_onednn_order(kWeights, cell_.weights());
    recurrence_ = in_onednn_order(kRecurrence, cell_.recurrence());
    Routine::Arguments arguments{
        {DNNL_ARG_SRC_LAYER, routine_.input(0, cell_.input())},
        {DNNL_ARG_SRC_ITER, initial(first_state)},
        {DNNL_ARG_WEIGHTS_LAYER, routine_.reordered(weights_, primitive.weights_desc(0))},
        {DNNL_ARG_WEIGHTS_ITER, routine_.reordered(recurrence_, primitive.weights_desc(1))},
        {DNNL_ARG_BIAS, bias()}};
    if (cell_.has_c()) arguments.emplace_back(DNNL_ARG_SRC_ITER_C, initial(first_state + 1));
    return arguments;
  }

  /// The backward pass may want another layout of the weights.
  void use_weights_of(const dnnl::primitive_desc& backward, Routine::Arguments& arguments) {
    for (auto& [argument, slot] : arguments) {
      if (argument == DNNL_ARG_WEIGHTS_LAYER)
        slot = routine_.reordered(weights_, backward.weights_desc(0));
      if (argument == DNNL_ARG_WEIGHTS_ITER)
        slot = routine_.reordered(recurrence_, backward.weights_desc(1));
    }
  }

  /// ONNX's gates in oneDNN's order.
  Routine::Slot in_onednn_order(std::size_t input, const Desc& desc) {
    const auto from = routine_.input(input, desc);
    if (cell_.has_onnx_order()) return from;
    const auto to = routine_.scratch(desc);
    routine_.run([=, cell = cell_](const Routine& now, const Operands&) {
      cell.to_onednn(now.data<float>(to), now.data<float>(from), now.bytes(to) / sizeof(float));
    });
    return to;
  }

  void deliver_weights(Routine::Slot from, std::size_t output, const Desc& desc) {
    const auto to = routine_.output(output, desc);
    if (cell_.has_onnx_order()) return routine_.reorder(from, to);
    const auto ordered = routine_.reordered(from, desc);
    routine_.run([=, cell = cell_](const Routine& now, const Operands&) {
      cell.to_onnx(now.data<float>(to), now.data<float>(ordered), now.bytes(to) / sizeof(float));
    });
  }

  /// ONNX has two biases, of W and of R; oneDNN their sum.
  Routine::Slot bias() {
    if (!operands_.has(kBias)) return zeros(cell_.bias());
    const auto to = routine_.scratch(cell_.bias());
    routine_.run([=, cell = cell_](const Routine& now, const Operands& operands) {
      cell.bias_to_onednn(now.data<float>(to), operands.input(kBias).as<float>().data());
    });
    return to;
  }

  void deliver_bias(Routine::Slot from) {
    routine_.run([=, cell = cell_](const Routine& now, const Operands& operands) {
      cell.bias_to_onnx(operands.output(3).as<float>().data(), now.data<float>(from));
    });
  }

  Routine::Slot layer_gradient(std::size_t input) {
    const auto from = routine_.input(input, cell_.sequence());
    if (cell_.directions() == 1) return from;
    const auto to = routine_.scratch(cell_.layer());
    routine_.reorder(from, routine_.view(to, cell_.layer_by_direction()));
    return to;
  }

  Routine& routine_;
  const Operands& operands_;
  const Cell cell_;
  Routine::Slot weights_ = 0;
  Routine::Slot recurrence_ = 0;
};

Cell::Kind gru_kind(const Operands& operands) {
  return operands.attributes().integer("linear_before_reset") != 0 ? Cell::Kind::lbr_gru
                                                                   : Cell::Kind::gru;
}

}  // namespace

void add_recurrent(KernelSet& set) {
  set.add_primitives("LSTM", [](Routine& routine, const Operands& operands) {
    Recurrence(routine, operands, Cell::Kind::lstm).build_forward();
  });
  set.add_primitives("weft.LSTMGrad", [](Routine& routine, const Operands& operands) {
    Recurrence(routine, operands, Cell::Kind::lstm).build_backward();
  });
  set.add_primitives("GRU", [](Routine& routine, const Operands& operands) {
    Recurrence(routine, operands, gru_kind(operands)).build_forward();
  });
  set.add_primitives("weft.GRUGrad", [](Routine& routine, const Operands& operands) {
    Recurrence(routine, operands, gru_kind(operands)).build_backward();
  });
}

}  // namespace weft::dataflow::onednn
