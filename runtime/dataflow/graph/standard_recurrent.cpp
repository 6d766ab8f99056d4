// LSTM and GRU over sequences.
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

constexpr std::size_t kBias = 3;
constexpr std::size_t kSequenceLengths = 4;
constexpr std::size_t kInitialH = 5;
constexpr std::size_t kInitialC = 6;
constexpr std::size_t kPeepholes = 7;

std::int64_t directions(const Inference& in) {
  const std::string& direction = in.attributes().word("direction");
  if (direction == "forward" || direction == "reverse") return 1;
  if (direction != "bidirectional") in.refuse("direction is forward, reverse or bidirectional");
  return 2;
}

void check_parameter(const Inference& in, std::size_t i, const PartialShape& shape) {
  if (in.has(i)) agreed(in, in.shape(i), shape);
}

/// Checks X, W, R, B and the initial states; returns the types of Y and of a state.
Types infer_recurrent(const Inference& in, std::int64_t gates) {
  need_float(in, 0);
  if (in.has(kSequenceLengths)) in.refuse("sequence_lens is not supported");
  if (in.has(kPeepholes)) in.refuse("P (peepholes) is not supported");
  need_one_dtype(in);
  need_dims(in, 0, 3);
  const std::int64_t hidden = in.attributes().integer("hidden_size");
  if (hidden < 1) in.refuse("hidden_size must be positive");
  const std::int64_t count = directions(in);
  const PartialShape& x = in.shape(0);
  const PartialShape state{count, x[1], hidden};
  check_parameter(in, 1, {count, gates * hidden, x[2]});
  check_parameter(in, 2, {count, gates * hidden, hidden});
  check_parameter(in, kBias, {count, 2 * gates * hidden});
  check_parameter(in, kInitialH, state);
  check_parameter(in, kInitialC, state);
  return {{in.dtype(0), {x[0], count, x[1], hidden}}, {in.dtype(0), state}};
}

/// The gradient node has the forward node's inputs, then Y, then the gradients of the outputs. Its
/// outputs are the gradients of the inputs, in the order X, W, R, B, initial_h, initial_c.
Gradients gradient_of_recurrent(GradientBuilder& builder, const char* definition,
                                std::size_t states) {
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i <= kBias; ++i) inputs.push_back(builder.input(i));
  for (std::size_t i = 0; i < states; ++i) inputs.push_back(builder.input(kInitialH + i));
  inputs.push_back(builder.output(0));
  for (std::size_t i = 0; i <= states; ++i) inputs.push_back(builder.gradient_or_zeros(i));
  const std::int32_t node = builder.add(definition, inputs, builder.attributes()).node;
  Gradients gradients;
  for (std::size_t i = 0; i < builder.inputs(); ++i) {
    const std::size_t output = i < kSequenceLengths ? i : i - 1;
    gradients.push_back(i == kSequenceLengths || i == kPeepholes
                            ? TensorId{}
                            : TensorId{node, static_cast<std::int32_t>(output)});
  }
  return gradients;
}

Types infer_gradient(const Inference& in, std::int64_t gates, std::int64_t states) {
  const PartialShape& w = in.shape(1);
  const std::int64_t hidden = in.attributes().integer("hidden_size");
  Types types{in.input(0), in.input(1), in.input(2), {in.dtype(0), {w[0], 2 * gates * hidden}}};
  for (std::int64_t i = 0; i < states; ++i)
    types.push_back({in.dtype(0), {w[0], in.shape(0)[1], hidden}});
  return types;
}

Parameter optional(const char* name) { return {name, Parameter::Count::optional}; }

void add_lstm(Definitions& all, const std::vector<AttributeSpec>& attributes) {
  all.add({.name = "LSTM",
           .inputs = {{"X"},
                      {"W"},
                      {"R"},
                      optional("B"),
                      optional("sequence_lens"),
                      optional("initial_h"),
                      optional("initial_c"),
                      optional("P")},
           .outputs = {{"Y"}, {"Y_h"}, {"Y_c"}},
           .attributes = attributes,
           .infer =
               [](const Inference& in) {
                 Types types = infer_recurrent(in, 4);
                 types.push_back(types[1]);
                 return types;
               },
           .gradient =
               [](GradientBuilder& builder) {
                 return gradient_of_recurrent(builder, "weft.LSTMGrad", 2);
               }});
  all.add({.name = "weft.LSTMGrad",
           .inputs = {{"X"},
                      {"W"},
                      {"R"},
                      optional("B"),
                      optional("initial_h"),
                      optional("initial_c"),
                      {"Y"},
                      {"dY"},
                      {"dY_h"},
                      {"dY_c"}},
           .outputs = {{"dX"}, {"dW"}, {"dR"}, {"dB"}, {"dinitial_h"}, {"dinitial_c"}},
           .attributes = attributes,
           .infer = [](const Inference& in) { return infer_gradient(in, 4, 2); }});
}

void add_gru(Definitions& all, std::vector<AttributeSpec> attributes) {
  attributes.push_back({"linear_before_reset", std::int64_t{0}});
  all.add(
      {.name = "GRU",
       .inputs =
           {{"X"}, {"W"}, {"R"}, optional("B"), optional("sequence_lens"), optional("initial_h")},
       .outputs = {{"Y"}, {"Y_h"}},
       .attributes = attributes,
       .infer = [](const Inference& in) { return infer_recurrent(in, 3); },
       .gradient =
           [](GradientBuilder& builder) {
             return gradient_of_recurrent(builder, "weft.GRUGrad", 1);
           }});
  all.add({.name = "weft.GRUGrad",
           .inputs =
               {{"X"}, {"W"}, {"R"}, optional("B"), optional("initial_h"), {"Y"}, {"dY"}, {"dY_h"}},
           .outputs = {{"dX"}, {"dW"}, {"dR"}, {"dB"}, {"dinitial_h"}},
           .attributes = attributes,
           .infer = [](const Inference& in) { return infer_gradient(in, 3, 1); }});
}

}  // namespace

void add_recurrent(Definitions& all) {
  const std::vector<AttributeSpec> attributes = {{"hidden_size", std::int64_t{0}, true},
                                                 {"direction", std::string("forward")}};
  add_lstm(all, attributes);
  add_gru(all, attributes);
}

}  // namespace weft::dataflow
