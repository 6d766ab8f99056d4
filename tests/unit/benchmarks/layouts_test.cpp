#include "benchmarks/output/layouts.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace weft::bench {
namespace {

Row row(std::size_t size, double weft_us, double limit_us) {
  Row row;
  row.size = size;
  row.kind = "f32";
  row.ranks = 4;
  row.weft_us = weft_us;
  row.limit = {limit_us, 1.25, 0};
  return row;
}

std::vector<Row> rows() {
  Row large = row(1 << 20, 100, 80);
  large.peers["openmpi"] = {400, 0.25, 0.1};
  return {row(8, 2, 1.6), large};
}

TEST(Layouts, OsuHasSizeAndLatencyInColumns) {
  const std::string text = osu_layout("all_reduce", rows());
  EXPECT_NE(text.find("# weft all_reduce (f32, 4 ranks)\n# Size "), std::string::npos) << text;
  EXPECT_NE(text.find("Latency(us)"), std::string::npos) << text;
  EXPECT_NE(text.find("\n8                           2.00              1.60                 -\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n1048576                   100.00             80.00            400.00\n"),
            std::string::npos)
      << text;
}

TEST(Layouts, NcclCountsTheBusByTheCollective) {
  const std::string text = nccl_layout("all_reduce", rows(), true);
  // 1 MiB in 100 us; the bus carries 2 * 3/4 of it.
  EXPECT_NE(
      text.find("1048576        262144     float     sum    100.00    10.49    15.73       0"),
      std::string::npos)
      << text;
  const std::string gathered = nccl_layout("all_gather", rows(), false);
  EXPECT_NE(gathered.find("none    100.00    10.49     7.86     N/A"), std::string::npos)
      << gathered;
  EXPECT_THROW(nccl_layout("latency", rows(), true), std::runtime_error);
  EXPECT_THROW(nccl_layout("barrier", rows(), true), std::runtime_error);
}

TEST(Layouts, CsvHasALineForEachRowAndAllPeersColumns) {
  auto some = rows();
  some[0].kind = "a, b";
  EXPECT_EQ(csv(some, {4}),
            "size,kind,ranks,weft_us,limit_us,limit_ratio,limit_spread,"
            "openmpi_us,openmpi_ratio,openmpi_spread\n"
            "8,\"a, b\",4,2,1.6,1.25,0,,,\n"
            "1048576,f32,4,100,80,1.25,0,400,0.25,0.1\n");
  EXPECT_THROW(write_csv("/no/such/folder/rows.csv", rows(), {4}), std::runtime_error);
}

TEST(Layouts, CsvHasTheCongestionControlInEachLineOverTcp) {
  EXPECT_EQ(csv({row(8, 2, 1.6)}, {4, "bbr"}),
            "size,kind,ranks,weft_us,limit_us,limit_ratio,limit_spread,congestion_control\n"
            "8,f32,4,2,1.6,1.25,0,bbr\n");
  EXPECT_NE(
      csv({row(8, 2, 1.6)}, {4, "host1 reno, host2 bbr"}).find(",\"host1 reno, host2 bbr\"\n"),
      std::string::npos);
}

}  // namespace
}  // namespace weft::bench
