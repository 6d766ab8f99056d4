// docs/dataflow.md: its code compiles, its report is what the code prints, its list is complete.
#include <gtest/gtest.h>

#include "tests/unit/dataflow/guide.hpp"
#include "weft/partition.hpp"

namespace weft::dataflow {
namespace {

Plan guide_plan() {
  Graph model;
  const TensorId x = model.feed("x", DType::f32, {32, 784});
  const TensorId labels = model.feed("labels", DType::i64, {32});
  const TensorId w = model.variable("w", DType::f32, {784, 10});
  const TensorId scores = model.add("MatMul", {x, w}, {}, "scores");
  const TensorId loss = model.add("SoftmaxCrossEntropyLoss", {scores, labels}, {}, "loss");
  model.fetch(loss, "the loss");
  const TensorId dw = gradients(model, loss, std::vector{w})[0];
  const TensorId step = model.add("weft.Scale", {dw}, {{"factor", -0.1}}, "step");
  model.assign(w, model.add("Add", {w, step}, {}, "new w"), "update");

  const Replicas replicas = replicate(model, {.workers = {1, 2}, .servers = {0}});
  const Plan plan = partition(replicas.graph, {.ranks = 3});
  return plan;
}

TEST(DataflowGuide, ShowsCodeThatCompiles) {
  const std::string code = guide::file("tests/unit/dataflow/guide_test.cpp");
  const auto block = guide::block_after("## A graph");
  EXPECT_GT(block.size(), 8U);
  for (const std::string& line : block) EXPECT_NE(code.find(line), std::string::npos) << line;
}

TEST(DataflowGuide, ShowsTheReportOfItsCode) {
  std::string shown;
  for (const std::string& line : guide::block_after("## The report")) shown += line + " ";
  std::string printed = guide_plan().text();
  for (char& c : printed)
    if (c == '\n') c = ' ';
  EXPECT_EQ(shown, printed);
}

TEST(DataflowGuide, ListsEveryDefinition) {
  const std::string text = guide::file("docs/dataflow.md");
  for (const std::string& name : Definitions::standard().names())
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace weft::dataflow
