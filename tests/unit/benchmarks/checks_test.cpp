#include "benchmarks/output/checks.hpp"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

struct Seen {
  double ratio;
  double allowed;
  double within_runs = 0;   ///< spread
  double between_runs = 0;  ///< spread
};

Row row_of(const Seen& seen) {
  return {.size = 4096,
          .kind = "this <= that",
          .ranks = 8,
          .weft_us = 20 * seen.ratio,
          .limit = {.us = 20, .ratio = seen.ratio, .spread = seen.between_runs},
          .limit_ways = {},
          .peers = {},
          .figures = {{"allowed", seen.allowed}, {"spread", seen.within_runs}}};
}

bool fails(const Seen& seen) {
  std::vector<Row> rows{row_of(seen)};
  judge(rows);
  EXPECT_EQ(rows[0].figures.at("slower"), any_slower(rows) ? 1 : 0);
  return any_slower(rows);
}

TEST(Check, FailsAboveWhatIsAllowed) {
  EXPECT_TRUE(fails({.ratio = 1.16, .allowed = 1.15}));
  EXPECT_FALSE(fails({.ratio = 1.14, .allowed = 1.15}));
  EXPECT_TRUE(fails({.ratio = 2.1, .allowed = 2}));
  EXPECT_FALSE(fails({.ratio = 1.9, .allowed = 2}));
  EXPECT_FALSE(fails({.ratio = 0.5, .allowed = 1.15}));
}

TEST(Check, HoldsWhereTheRatioIsNoMoreThanNoise) {
  EXPECT_FALSE(fails({.ratio = 1.3, .allowed = 1.15, .within_runs = 0.4}));
  EXPECT_FALSE(fails({.ratio = 1.3, .allowed = 1.15, .between_runs = 0.4}));
  EXPECT_TRUE(fails({.ratio = 1.3, .allowed = 1.15, .within_runs = 0.2, .between_runs = 0.2}));
  EXPECT_TRUE(fails({.ratio = 2.5, .allowed = 2, .within_runs = 1.2}));
}

TEST(Check, OneThatFailsAmongManyIsTold) {
  std::vector<Row> rows{row_of({.ratio = 1, .allowed = 1.15}), row_of({.ratio = 3, .allowed = 2})};
  judge(rows);
  EXPECT_TRUE(any_slower(rows));
  rows.pop_back();
  EXPECT_FALSE(any_slower(rows));
}

TEST(Verdicts, AreALineForEachCheckBehindTheRule) {
  std::vector<Row> rows{
      row_of({.ratio = 0.5, .allowed = 1.15, .within_runs = 0.1, .between_runs = 0.2}),
      row_of({.ratio = 3, .allowed = 1.5})};
  judge(rows);
  const std::string text = verdicts(rows);
  EXPECT_NE(text.find("exceeds 1 by more than the spread\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    8    4k  this <= that       10.0       20.0   0.500     1.15     20%  "
                      "ok\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("    8    4k  this <= that       60.0       20.0   3.000     1.50      0%  "
                      "slower\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace weft::bench
