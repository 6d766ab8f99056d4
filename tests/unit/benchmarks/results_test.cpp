#include "benchmarks/driver/results.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace weft::bench {
namespace {

std::vector<RunRow> run_of_weft(const std::string& kind, double us) {
  return {{8, kind, {{"weft", us}, {"limit", 1}, {"weft/limit", us}}, {{"hop_us", us / 2}}}};
}

using Columns = std::map<std::string, std::vector<double>>;

TEST(Results, APeersColumnsHaveItsName) {
  Results results;
  add(results, "weft", 2, run_of_weft("touched", 2));
  add(results, "openmpi", 2, {{8, "touched", {{"sendrecv", 4}, {"put", 5}}, {}}});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].columns, (Columns{{"limit", {1}},
                                         {"openmpi", {4}},
                                         {"openmpi_put", {5}},
                                         {"weft", {2}},
                                         {"weft/limit", {2}}}));
  forget(results, "openmpi");
  EXPECT_EQ(results[0].columns.size(), 3U);
}

TEST(Results, AnotherBuildHasItsTimeAndItsLimitAndNoFigures) {
  Results results;
  add(results, "against", 2, run_of_weft("touched", 3));
  add(results, "weft", 2, run_of_weft("touched", 2));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].columns, (Columns{{"against", {3}},
                                         {"against/limit", {1}},
                                         {"limit", {1}},
                                         {"weft", {2}},
                                         {"weft/limit", {2}}}));
  EXPECT_EQ(results[0].figures, (Columns{{"hop_us", {1}}}));
}

TEST(Results, RowsDifferInSizeKindOrRanks) {
  Results results;
  add(results, "weft", 2, run_of_weft("touched", 2));
  add(results, "weft", 4, run_of_weft("touched", 2));
  add(results, "weft", 2, run_of_weft("untouched", 2));
  EXPECT_EQ(results.size(), 3U);
}

TEST(Results, OnlyRowsOfThisBuildAreKept) {
  Results results;
  add(results, "against", 2, run_of_weft("removed", 3));
  add(results, "against", 2, run_of_weft("touched", 3));
  add(results, "weft", 2, run_of_weft("touched", 2));
  add(results, "weft", 2, run_of_weft("new", 2));
  keep_common_rows(results);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].kind, "touched");
  EXPECT_EQ(results[1].kind, "new");
}

TEST(Results, BuildsWithoutACommonRowAreRefused) {
  Results results;
  add(results, "against", 2, run_of_weft("removed", 3));
  add(results, "weft", 2, run_of_weft("new", 2));
  EXPECT_THROW(keep_common_rows(results), std::runtime_error);
}

}  // namespace
}  // namespace weft::bench
