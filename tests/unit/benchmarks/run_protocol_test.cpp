#include "benchmarks/harness/run_protocol.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace weft::bench {
namespace {

TEST(RunArguments, ComeOutAsTheyWentIn) {
  const RunOptions options{"fig7", {8, 65536}, std::chrono::milliseconds(70), 4, true, true, "rpc"};
  std::vector<std::string> words = arguments(options);
  words.insert(words.begin(), "weft-bench");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const RunOptions read = parse_run(static_cast<int>(argv.size()), argv.data());
  EXPECT_EQ(read.benchmark, options.benchmark);
  EXPECT_EQ(read.sizes, options.sizes);
  EXPECT_EQ(read.budget, options.budget);
  EXPECT_EQ(read.ranks, options.ranks);
  EXPECT_EQ(read.crowded, options.crowded);
  EXPECT_EQ(read.check, options.check);
  EXPECT_EQ(read.kind, options.kind);
}

TEST(RunRows, AreFoundBetweenOtherLines) {
  const std::vector<RunRow> rows{
      {8, "touched", {{"weft", 0.25}, {"limit", 0.2}}, {{"hop_us", 0.1}}}};
  const auto read = rows_in("a launcher's word\n[1]\n" + to_line(rows) + "\nand another\n");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].size, 8U);
  EXPECT_EQ(read[0].kind, "touched");
  EXPECT_EQ(read[0].values, rows[0].values);
  EXPECT_EQ(read[0].figures, rows[0].figures);
}

TEST(RunRows, AreMissedWhenThereAreNone) {
  EXPECT_THROW(rows_in("nothing\n"), std::runtime_error);
  EXPECT_THROW(rows_in(""), std::runtime_error);
}

}  // namespace
}  // namespace weft::bench
