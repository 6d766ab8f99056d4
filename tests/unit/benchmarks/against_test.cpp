#include "benchmarks/output/against.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "benchmarks/output/layouts.hpp"

namespace weft::bench {
namespace {

Comparison ratio(double median, double spread) { return {1, median, spread, 0}; }

/// One row of three pairs: this build's time is the other build's, times one of `ratios` each.
std::vector<Row> measured(std::size_t size, const std::vector<double>& ratios) {
  Measurements row{size, "touched", 2, {}, {}};
  for (const double ratio : ratios) {
    row.columns["weft"].push_back(10 * ratio);
    row.columns["limit"].push_back(5);
    row.columns["weft/limit"].push_back(2 * ratio);
    row.columns[std::string(kAgainst)].push_back(10);
    row.columns[std::string(kAgainstLimit)].push_back(4);
  }
  return summarise({row});
}

TEST(Against, IsWorseBeyondTheSpreadAlone) {
  EXPECT_TRUE(is_worse(ratio(1.04, 0.01)));
  EXPECT_TRUE(is_worse(ratio(1.25, 0.19)));
  EXPECT_FALSE(is_worse(ratio(1.25, 0.21))) << "chance may have made this";
  EXPECT_FALSE(is_worse(ratio(4, 0.8)));
  EXPECT_FALSE(is_worse(ratio(1.03, 0))) << "the most that is allowed";
  EXPECT_FALSE(is_worse(ratio(0.5, 0)));
}

TEST(Against, ComparesPairByPair) {
  const auto rows = measured(8, {1.1, 1.2, 1.3});
  const Comparison& against = rows[0].peers.at("against");
  EXPECT_DOUBLE_EQ(against.us, 10);
  EXPECT_DOUBLE_EQ(against.ratio, 1.2);
  EXPECT_NEAR(against.spread, 0.1 / 1.2, 1e-12);
  EXPECT_DOUBLE_EQ(rows[0].spread(), against.spread) << "the row's spread is this ratio's";
}

TEST(Against, TheTextNamesEachRowThatIsWorse) {
  auto rows = measured(8, {1.2, 1.2, 1.2});
  rows.push_back(measured(1 << 16, {1.01, 1.01, 1.01})[0]);
  const std::string text = against_text("../before", rows);
  EXPECT_TRUE(text.starts_with("against ../before: worse ")) << text;
  EXPECT_NE(text.find("\n  8 touched, 2 ranks: 1.200, spread 0%; the limit's: 1.250\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("64k"), std::string::npos) << text;
}

TEST(Against, TheTextSaysThatNoRowIsWorse) {
  EXPECT_TRUE(against_text("../before", measured(8, {0.9, 1, 1.1}))
                  .starts_with("against ../before: no row is worse "));
}

TEST(Against, TheFormsForProgramsHaveRatioSpreadAndVerdict) {
  const auto rows = measured(8, {1.2, 1.2, 1.2});
  EXPECT_EQ(csv(rows, {2}),
            "size,kind,ranks,weft_us,limit_us,limit_ratio,limit_spread,"
            "against_us,against_ratio,against_spread,worse\n"
            "8,touched,2,12,5,2.4,0,10,1.2,0,1\n");
  const auto document = nlohmann::json::parse(json("latency", rows, {2}));
  EXPECT_EQ(document["rows"][0]["peers"]["against"], 10.0);
  const auto& compared = document["rows"][0]["ratios"]["against"];
  EXPECT_NEAR(compared["ratio"].get<double>(), 1.2, 1e-12);
  EXPECT_NEAR(compared["spread"].get<double>(), 0, 1e-12);
  EXPECT_EQ(compared["worse"], true);
  EXPECT_EQ(compared["limit_ratio"], 1.25);
}

TEST(Against, ACallWithoutAPlanIsNotComparedWithTheOthersPlan) {
  Measurements row{8, "f32", 2, {}, {}};
  row.columns = {{"weft", {1}}, {"limit", {1}}, {"weft/limit", {1}}, {"against", {1}}};
  row.figures = {{"once_us", {3}}};
  EXPECT_EQ(summarise({row})[0].peers.at("against").once_ratio, 0);
}

}  // namespace
}  // namespace weft::bench
