#include "model.hpp"

#include <array>
#include <span>

#include "weft/variables.hpp"

namespace charlm {
namespace {

using weft::DType;
using weft::Shape;
using weft::dataflow::Graph;
using weft::dataflow::Sizes;
using weft::dataflow::TensorId;

class Builder {
 public:
  explicit Builder(const GraphOptions& options)
      : options_(options), graph_(weft::pslib::with_updates()) {}

  Graph build() {
    const auto [vocabulary, embed, hidden] = options_.sizes;
    const std::int64_t characters = std::int64_t{options_.length} * options_.sequences;
    const TensorId inputs =
        graph_.feed("inputs", DType::i32, {options_.length, options_.sequences});
    const TensorId targets = graph_.feed("targets", DType::i32, {characters});
    const TensorId embedding = parameter("embedding", {vocabulary, embed});
    const TensorId x = graph_.add("Gather", {embedding, inputs}, {}, "embedded");
    const TensorId w = parameter("W", {1, 4 * hidden, embed});
    const TensorId r = parameter("R", {1, 4 * hidden, hidden});
    const TensorId states =
        graph_.add("LSTM", {x, w, r, bias()}, {{"hidden_size", hidden}}, "states");
    const TensorId rows =
        graph_.add("Reshape", {states}, {{"shape", Sizes{characters, hidden}}}, "rows");
    const TensorId weights = parameter("output_weights", {hidden, vocabulary});
    const TensorId output_bias = parameter("output_bias", {vocabulary});
    const TensorId scores = graph_.add("Gemm", {rows, weights, output_bias}, {}, "scores");
    const TensorId loss = graph_.add("SoftmaxCrossEntropyLoss", {scores, targets}, {}, "mean loss");
    graph_.fetch(loss, "loss");
    weft::pslib::apply_gradients(graph_, loss, parameters_,
                                 weft::pslib::Optimizer::adam(options_.learning_rate));
    return std::move(graph_);
  }

 private:
  TensorId parameter(const std::string& name, const Shape& shape) {
    parameters_.push_back(graph_.variable(name, DType::f32, shape));
    return parameters_.back();
  }

  /// ONNX adds two biases, of inputs and of states. Train_charlm has one: the other is zero.
  TensorId bias() {
    const int gates = 4 * options_.sizes.hidden;
    const TensorId own = parameter("gate_bias", {1, gates});
    const TensorId zeros = graph_.add(
        "weft.Fill", {}, {{"dtype", "f32"}, {"shape", Sizes{1, gates}}}, "no bias of states");
    return graph_.add("Concat", {own, zeros}, {{"axis", 1}}, "both biases");
  }

  const GraphOptions& options_;
  Graph graph_;
  std::vector<TensorId> parameters_;
};

/// Of [rows, 4 hidden] with gates i, f, o, c to [4 hidden, rows] with ONNX's order: i, o, f, c.
std::vector<float> as_in_onnx(std::span<const float> from, std::size_t rows, std::size_t hidden) {
  constexpr std::array<std::size_t, 4> kOrder{0, 2, 1, 3};
  std::vector<float> to;
  for (const std::size_t gate : kOrder)
    for (std::size_t unit = 0; unit < hidden; ++unit)
      for (std::size_t row = 0; row < rows; ++row)
        to.push_back(from[(row * 4 + gate) * hidden + unit]);
  return to;
}

}  // namespace

Graph make_graph(const GraphOptions& options) { return Builder(options).build(); }

std::map<std::string, std::vector<float>> first_values(const LstmSizes& sizes, std::uint64_t seed) {
  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  const auto embed = static_cast<std::size_t>(sizes.embed);
  const auto vocabulary = static_cast<std::size_t>(sizes.vocabulary);
  std::map<std::string, std::vector<float>> values;
  std::vector<float> input_weights(embed * 4 * hidden);
  std::vector<float> hidden_weights(hidden * 4 * hidden);
  std::vector<float> gate_bias(4 * hidden);
  values["embedding"].resize(vocabulary * embed);
  values["output_weights"].resize(hidden * vocabulary);
  values["output_bias"].resize(vocabulary);
  initialize(sizes, seed,
             {values["embedding"], input_weights, hidden_weights, gate_bias,
              values["output_weights"], values["output_bias"]});
  values["W"] = as_in_onnx(input_weights, embed, hidden);
  values["R"] = as_in_onnx(hidden_weights, hidden, hidden);
  values["gate_bias"] = as_in_onnx(gate_bias, 1, hidden);
  return values;
}

}  // namespace charlm
