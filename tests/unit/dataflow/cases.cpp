#include "tests/unit/dataflow/cases.hpp"

namespace weft::dataflow::reference {
namespace {

std::vector<Case> elementwise_cases() {
  return {{"Add", {{{2, 3}}, {{3}}}},
          {"Add", {{{2, 1}}, {{1, 3}}}},
          {"Mul", {{{2, 3}}, {{2, 3}}}},
          {"Mul", {{{2, 3}}, {{}}}},
          {"Sum", {{{2, 3}}, {{3}}, {{2, 1}}}},
          {"weft.Scale", {{{4}}}, {{"factor", -1.5}}},
          {"Relu", {{{3, 4}}}},
          {"Sigmoid", {{{3, 4}}}},
          {"Tanh", {{{3, 4}}}},
          {"Dropout", {{{5, 4}}}, {{"ratio", 0.25}, {"seed", 7}}}};
}

std::vector<Case> matrix_cases() {
  std::vector<Case> cases{{"MatMul", {{{2, 3}}, {{3, 4}}}},
                          {"MatMul", {{{2, 2, 3}}, {{3, 2}}}},
                          {"MatMul", {{{2, 1, 2, 3}}, {{3, 3, 2}}}}};
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b)
      cases.push_back(
          {"Gemm",
           {{a != 0 ? Sizes{3, 2} : Sizes{2, 3}}, {b != 0 ? Sizes{4, 3} : Sizes{3, 4}}, {{4}}},
           {{"alpha", 0.5}, {"beta", 2.0}, {"transA", a}, {"transB", b}}});
  cases.push_back({"Gemm", {{{2, 3}}, {{3, 4}}}});
  return cases;
}

std::vector<Case> window_cases() {
  return {{"Conv", {{{2, 2, 5, 4}}, {{3, 2, 2, 3}}, {{3}}}},
          {"Conv",
           {{{1, 2, 5, 7}}, {{2, 2, 1, 7}}},  // 1x7
           {{"pads", Sizes{0, 3, 0, 3}}, {"strides", Sizes{2, 1}}}},
          {"Conv",
           {{{1, 4, 5, 5}}, {{2, 2, 2, 2}}, {{2}}},
           {{"group", 2}, {"dilations", Sizes{2, 1}}, {"pads", Sizes{1, 0, 0, 2}}}},
          {"MaxPool", {{{1, 2, 5, 5}}}, {{"kernel_shape", Sizes{2, 3}}, {"strides", Sizes{2, 1}}}},
          {"MaxPool",
           {{{1, 1, 5, 5}}},
           {{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}, {"ceil_mode", 1}}},
          {"AveragePool",
           {{{1, 2, 4, 4}}},
           {{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes{1, 1, 1, 1}}}},
          {"AveragePool",
           {{{1, 2, 4, 4}}},
           {{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes{1, 1, 1, 1}}, {"count_include_pad", 1}}},
          {"BatchNormalization",
           {{{3, 2, 2}}, {{2}}, {{2}}, {{2}, 3}, {{2}, 3}},
           {{"training_mode", 1}}},
          {"BatchNormalization", {{{3, 2, 2}}, {{2}}, {{2}}, {{2}, 3}, {{2}, 3}}}};
}

std::vector<Case> recurrent_cases() {
  std::vector<Case> cases;
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    const std::int64_t d = std::string(direction) == "bidirectional" ? 2 : 1;
    const Attributes attributes{{"hidden_size", 2}, {"direction", std::string(direction)}};
    cases.push_back(
        {"LSTM",
         {{{3, 2, 2}}, {{d, 8, 2}}, {{d, 8, 2}}, {{d, 16}}, kNone, {{d, 2, 2}}, {{d, 2, 2}}},
         attributes});
    cases.push_back({"GRU",
                     {{{3, 2, 2}}, {{d, 6, 2}}, {{d, 6, 2}}, {{d, 12}}, kNone, {{d, 2, 2}}},
                     attributes});
  }
  cases.push_back({"LSTM", {{{2, 1, 2}}, {{1, 8, 2}}, {{1, 8, 2}}}, {{"hidden_size", 2}}});
  cases.push_back({"GRU",
                   {{{2, 1, 2}}, {{1, 6, 2}}, {{1, 6, 2}}, {{1, 12}}},
                   {{"hidden_size", 2}, {"linear_before_reset", 1}}});
  return cases;
}

std::vector<Case> other_cases() {
  return {
      {"Concat", {{{2, 3}}, {{2, 1}}, {{2, 2}}}, {{"axis", 1}}},
      {"Concat", {{{2, 3}}, {{1, 3}}}, {{"axis", -2}}},
      {"Split", {{{2, 5}}}, {{"axis", 1}, {"split", Sizes{2, 0, 3}}}},
      {"Split", {{{4, 2}}}, {{"num_outputs", 2}}},
      {"Reshape", {{{2, 6}}}, {{"shape", Sizes{0, -1, 2}}}},
      {"Transpose", {{{2, 3, 4}}}, {{"perm", Sizes{2, 0, 1}}}},
      {"Transpose", {{{2, 3}}}},
      {"ReduceSum", {{{2, 3, 2}}}, {{"axes", Sizes{1}}, {"keepdims", 0}}},
      {"ReduceMean", {{{2, 3, 2}}}, {{"axes", Sizes{0, -1}}}},
      {"ReduceMax", {{{3, 4}}}, {{"axes", Sizes{1}}}},
      {"ReduceMax", {{{3, 4}}}},
      {"Gather", {{{4, 3}}, {{2, 3}, 4}}},
      {"Gather", {{{2, 4, 2}}, {{3}, 4}}, {{"axis", 1}}},
      {"SoftmaxCrossEntropyLoss", {{{4, 3}}, {{4}, 3}}},
      {"SoftmaxCrossEntropyLoss", {{{2, 3, 2}}, {{2, 2}, 3}}, {{"reduction", std::string("sum")}}},
      {"SoftmaxCrossEntropyLoss", {{{4, 3}}, {{4}, 3}}, {{"reduction", std::string("none")}}}};
}

}  // namespace

std::vector<Case> differentiable_cases() {
  std::vector<Case> all;
  for (const auto& some :
       {elementwise_cases(), matrix_cases(), window_cases(), recurrent_cases(), other_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace weft::dataflow::reference
