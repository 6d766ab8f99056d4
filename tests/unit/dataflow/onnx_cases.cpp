// Prints what the shape functions of ONNX's operators tell, as JSON for onnx_test.py: a line per
// node with its inputs, attributes and outputs.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/graph.hpp"

namespace weft::dataflow {
namespace {

using Json = nlohmann::json;

struct Operand {
  PartialShape shape;
  DType dtype = DType::f32;
  bool none = false;
};
const Operand kNone{{}, DType::f32, true};
constexpr std::int64_t kOpen = kAnySize;

Json type_json(const TensorType& type) {
  Json sizes = Json::array();
  for (const std::int64_t size : type.shape.sizes())
    sizes.push_back(size == kAnySize ? Json(nullptr) : Json(size));
  return {{"dtype", std::string(name(type.dtype))}, {"shape", sizes}};
}

Json attributes_json(const Attributes& attributes) {
  Json json = Json::object();
  for (const auto& [name, value] : attributes)
    std::visit([&, &key = name](const auto& one) { json[key] = one; }, value);
  return json;
}

Json parameters_json(const std::vector<Parameter>& parameters) {
  Json json = Json::array();
  for (const Parameter& one : parameters) {
    const char* const count = one.count == Parameter::Count::one        ? "Single"
                              : one.count == Parameter::Count::optional ? "Optional"
                                                                        : "Variadic";
    json.push_back({one.name, count});
  }
  return json;
}

/// Names, and the value of each attribute that a node leaves out.
Json signature_json(const Definition& definition) {
  Json attributes = Json::object();
  for (const AttributeSpec& one : definition.attributes)
    std::visit(
        [&](const auto& value) {
          attributes[one.name] = {{"value", value}, {"required", one.required}};
        },
        one.value);
  return {{"inputs", parameters_json(definition.inputs)},
          {"outputs", parameters_json(definition.outputs)},
          {"attributes", attributes}};
}

void print(const char* definition, const std::vector<Operand>& operands,
           const Attributes& attributes = {}) {
  Graph graph;
  std::vector<TensorId> inputs;
  Json types = Json::array();
  for (const Operand& operand : operands) {
    types.push_back(operand.none ? Json(nullptr) : type_json({operand.dtype, operand.shape}));
    inputs.push_back(
        operand.none ? TensorId{}
                     : graph.feed(fmt::format("x{}", inputs.size()), operand.dtype, operand.shape));
  }
  const TensorId first = graph.add(definition, inputs, attributes);
  Json outputs = Json::array();
  for (const TensorType& type : graph.node(first.node).outputs) outputs.push_back(type_json(type));
  const Json line = {{"op", definition},
                     {"inputs", types},
                     {"attributes", attributes_json(attributes)},
                     {"outputs", outputs}};
  std::puts(line.dump().c_str());
}

void print_elementwise() {
  for (const char* op : {"Add", "Mul", "Sum"}) {
    print(op, {{{2, 3}}, {{3}}});
    print(op, {{{kOpen, 1, 4}}, {{5, 1}}});
    print(op, {{{}}, {{2, kOpen}}});
  }
  print("Sum", {{{2, 1}}, {{1, 3}}, {{4, 1, 1}}});
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Dropout"}) print(op, {{{kOpen, 3}}});
  print("Dropout", {{{4}}}, {{"ratio", 0.25}});
}

void print_matrices() {
  print("MatMul", {{{2, 3}}, {{3, 4}}});
  print("MatMul", {{{kOpen, 3}}, {{3, 4}}});
  print("MatMul", {{{5, 1, 2, 3}}, {{7, 3, 4}}});
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b)
      print("Gemm", {{{6, 6}}, {{6, 6}}, {{6}}}, {{"transA", a}, {"transB", b}, {"alpha", 0.5}});
  print("Gemm", {{{3, 2}}, {{4, 3}}}, {{"transA", 1}, {"transB", 1}});
}

void print_windows() {
  const Operand image{{2, 4, 17, 13}};
  print("Conv", {image, {{6, 4, 3, 3}}});
  print("Conv", {image, {{6, 4, 1, 7}}, {{6}}}, {{"pads", Sizes{0, 3, 0, 3}}});
  print("Conv", {image, {{6, 2, 3, 2}}},
        {{"group", 2},
         {"strides", Sizes{2, 3}},
         {"dilations", Sizes{2, 1}},
         {"pads", Sizes{1, 0, 2, 1}},
         {"kernel_shape", Sizes{3, 2}}});
  print("Conv", {{{kOpen, 4, 17}}, {{6, 4, 5}}}, {{"strides", Sizes{4}}});
  for (const char* op : {"MaxPool", "AveragePool"})
    for (const std::int64_t ceil : {0, 1}) {
      print(op, {image}, {{"kernel_shape", Sizes{3, 2}}, {"ceil_mode", ceil}});
      print(op, {image},
            {{"kernel_shape", Sizes{3, 3}},
             {"strides", Sizes{2, 2}},
             {"pads", Sizes{1, 1, 0, 1}},
             {"ceil_mode", ceil}});
    }
  print("AveragePool", {image}, {{"kernel_shape", Sizes{2, 2}}, {"count_include_pad", 1}});
  const Operand channels{{4}};
  print("BatchNormalization", {image, channels, channels, channels, channels});
  print("BatchNormalization", {image, channels, channels, channels, channels},
        {{"training_mode", 1}});
}

void print_recurrent() {
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    const std::int64_t d = std::string(direction) == "bidirectional" ? 2 : 1;
    const Attributes attributes{{"hidden_size", 5}, {"direction", std::string(direction)}};
    for (const std::int64_t steps : {kOpen, std::int64_t{7}}) {
      print(
          "LSTM",
          {{{steps, 3, 2}}, {{d, 20, 2}}, {{d, 20, 5}}, {{d, 40}}, kNone, {{d, 3, 5}}, {{d, 3, 5}}},
          attributes);
      print("GRU", {{{steps, 3, 2}}, {{d, 15, 2}}, {{d, 15, 5}}}, attributes);
    }
  }
}

void print_others() {
  print("Concat", {{{2, 3}}, {{2, 1}}, {{2, 4}}}, {{"axis", 1}});
  print("Concat", {{{kOpen, 3}}, {{2, 3}}}, {{"axis", -2}});
  print("Split", {{{2, 9}}}, {{"axis", 1}, {"split", Sizes{2, 3, 4}}});
  print("Split", {{{kOpen, 6}}}, {{"axis", -1}, {"num_outputs", 3}});
  print("Reshape", {{{2, 3, 4}}}, {{"shape", Sizes{0, -1}}});
  print("Reshape", {{{2, 3, 4}}}, {{"shape", Sizes{4, 1, 6}}});
  print("Reshape", {{{kOpen, 6}}}, {{"shape", Sizes{2, 3}}});
  print("Transpose", {{{2, 3, 4}}}, {{"perm", Sizes{2, 0, 1}}});
  print("Transpose", {{{2, kOpen, 4}}});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
    print(op, {{{2, kOpen, 4}}});
    print(op, {{{2, 3, 4}}}, {{"axes", Sizes{0, -1}}});
    print(op, {{{2, kOpen, 4}}}, {{"axes", Sizes{1}}, {"keepdims", 0}});
  }
  const Operand table{{10, 6}};
  print("Gather", {table, {{3, kOpen}, DType::i64}});
  print("Gather", {table, {{3}, DType::i32}}, {{"axis", -1}});
  for (const char* reduction : {"mean", "sum", "none"})
    print("SoftmaxCrossEntropyLoss", {{{8, 10, 3}}, {{8, 3}, DType::i64}},
          {{"reduction", std::string(reduction)}});
}

}  // namespace
}  // namespace weft::dataflow

int main() {
  using namespace weft::dataflow;
  print_elementwise();
  print_matrices();
  print_windows();
  print_recurrent();
  print_others();
  // The operators that ONNX has too.
  nlohmann::json definitions = nlohmann::json::object();
  for (const std::string& name : Definitions::standard().names())
    if (name.find('.') == std::string::npos)
      definitions[name] = signature_json(*Definitions::standard().find(name));
  std::puts(nlohmann::json({{"definitions", definitions}}).dump().c_str());
}
