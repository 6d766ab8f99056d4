// docs/dataflow.md: its code compiles, its report is what the code prints, its list is complete.
#include <gtest/gtest.h>

#include "tests/unit/dataflow/guide.hpp"
#include "tests/unit/dataflow/guide_model.hpp"
#include "weft/partition.hpp"

namespace weft::dataflow {
namespace {

Plan guide_plan() {
  const Replicas replicas = guide::replicas();
  const Plan plan = partition(replicas.graph, {.ranks = 3});
  return plan;
}

TEST(DataflowGuide, ShowsCodeThatCompiles) {
  const std::string code = guide::file("tests/unit/dataflow/guide_test.cpp") +
                           guide::file("tests/unit/dataflow/guide_model.hpp");
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
