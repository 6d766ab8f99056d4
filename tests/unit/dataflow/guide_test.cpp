// docs/dataflow.md: its code compiles, its report is what the code prints, its list is complete.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "weft/partition.hpp"

namespace weft::dataflow {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(std::string(WEFT_SOURCE_DIR) + "/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

/// The lines of the code block that follows `heading`.
std::vector<std::string> block_after(const std::string& text, const std::string& heading) {
  std::istringstream lines(text.substr(text.find(heading)));
  std::vector<std::string> block;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("    "))
      block.push_back(trimmed(line));
    else if (!block.empty() && !line.empty())
      break;
  }
  return block;
}

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
  const std::string code = file("tests/unit/dataflow/guide_test.cpp");
  const auto block = block_after(file("docs/dataflow.md"), "## A graph");
  EXPECT_GT(block.size(), 8U);
  for (const std::string& line : block) EXPECT_NE(code.find(line), std::string::npos) << line;
}

TEST(DataflowGuide, ShowsTheReportOfItsCode) {
  std::string shown;
  for (const std::string& line : block_after(file("docs/dataflow.md"), "## The report"))
    shown += line + " ";
  std::string printed = guide_plan().text();
  for (char& c : printed)
    if (c == '\n') c = ' ';
  EXPECT_EQ(shown, printed);
}

TEST(DataflowGuide, ListsEveryDefinition) {
  const std::string guide = file("docs/dataflow.md");
  for (const std::string& name : Definitions::standard().names())
    EXPECT_NE(guide.find("`" + name + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace weft::dataflow
