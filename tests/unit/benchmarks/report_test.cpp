#include "benchmarks/output/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace weft::bench {
namespace {

TEST(Files, ThatCanNotBeWrittenAreRefusedWithTheReason) {
  const auto reason = [](const std::string& file) {
    try {
      write_file(file, "text");
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("written");
  };
  EXPECT_EQ(reason("/dev/full"), "cannot write /dev/full: No space left on device");
  EXPECT_EQ(reason("/no/such/x"), "cannot write /no/such/x: No such file or directory");
}

Results two_pairs_with_a_drift() {
  // Both programs take twice as long in the second pair: the ratios must not change.
  return {{1 << 20,
           "touched",
           4,
           {{"weft", {10, 20}},
            {"limit", {9.5, 19}},
            {"limit_memcpy", {9.5, 19}},
            {"limit_streamed", {12, 24}},
            {"weft/limit", {1.05, 1.05}},
            {"openmpi", {40, 80}},
            {"openmpi_put", {20, 40}}},
           {{"hop_us", {1, 2}}}}};
}

TEST(Summary, ComparesPairByPair) {
  const auto rows = summarise(two_pairs_with_a_drift());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].weft_us, 15);
  EXPECT_DOUBLE_EQ(rows[0].limit.ratio, 1.05);
  EXPECT_DOUBLE_EQ(rows[0].peers.at("openmpi").us, 60);
  EXPECT_DOUBLE_EQ(rows[0].peers.at("openmpi").ratio, 0.25);
  EXPECT_DOUBLE_EQ(rows[0].peers.at("openmpi_put").ratio, 0.5);
  EXPECT_DOUBLE_EQ(rows[0].spread(), 0);
}

TEST(Summary, SpreadIsTheLimitsWhereOpenMpiIsMissing) {
  const Results results{
      {8,
       "touched",
       2,
       {{"weft", {1, 1, 1}}, {"limit", {1, 1, 1}}, {"weft/limit", {1, 2, 3}}, {"mpich", {2, 2, 2}}},
       {}}};
  EXPECT_DOUBLE_EQ(summarise(results)[0].spread(), 0.5);
}

TEST(Summary, CountsTheBytesOfAllReceivers) {
  const auto row = summarise(two_pairs_with_a_drift())[0];
  EXPECT_DOUBLE_EQ(row.gigabytes_per_second(), 3 * (1 << 20) / 15.0 / 1000);
}

TEST(Json, HasTheAgreedForm) {
  const auto rows = summarise(two_pairs_with_a_drift());
  const auto document = nlohmann::json::parse(json("put-bw", rows, {3}));
  EXPECT_EQ(document["bench"], "put-bw");
  EXPECT_EQ(document["ranks"], 4) << "the most of any row";
  EXPECT_EQ(document["processors"], 3);
  ASSERT_EQ(document["rows"].size(), 1U);
  const auto& row = document["rows"][0];
  EXPECT_EQ(row["size"], 1 << 20);
  EXPECT_EQ(row["kind"], "touched");
  EXPECT_EQ(row["weft_us"], 15.0);
  EXPECT_EQ(row["limit_us"], 14.25);
  EXPECT_EQ(row["peers"], (nlohmann::json{{"openmpi", 60.0}, {"openmpi_put", 30.0}}));
  EXPECT_EQ(row["spread"], 0.0);
  EXPECT_EQ(row["ranks"], 4);
  EXPECT_EQ(row["figures"], (nlohmann::json{{"hop_us", 1.5}}));
  EXPECT_EQ(row["limit_ways"], (nlohmann::json{{"limit_memcpy", 14.25}, {"limit_streamed", 18.0}}));
}

TEST(Json, OfNoPeersIsAnEmptyObject) {
  const Results results{
      {8, "touched", 2, {{"weft", {1}}, {"limit", {1}}, {"weft/limit", {1}}}, {}}};
  const auto document = nlohmann::json::parse(json("latency", summarise(results), {2}));
  EXPECT_TRUE(document["rows"][0]["peers"].is_object());
  EXPECT_TRUE(document["rows"][0]["peers"].empty());
}

/// A job of three pairs in which a peer takes `of_limit` of the limit's time, give or take 10 %.
std::vector<Row> rows_with_a_peer_that_takes(double of_limit) {
  return summarise({{1 << 20,
                     "put",
                     2,
                     {{"weft", {20, 20, 20}},
                      {"limit", {10, 10, 10}},
                      {"weft/limit", {2, 2, 2}},
                      {"against", {1, 1, 1}},
                      {"iperf3", {9 * of_limit, 10 * of_limit, 11 * of_limit}}},
                     {}}});
}

TEST(Summary, TellsThePeersThatAreBeyondTheLimit) {
  const auto beyond = rows_with_a_peer_that_takes(0.6);
  EXPECT_EQ(beyond[0].peers_beyond_limit(), std::vector<std::string>{"iperf3"});
  EXPECT_NE(table("wire", beyond, {2})
                .find("1m put: iperf3 takes 0.60 of the limit's time, so the limit is none\n"),
            std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(json("wire", beyond, {2}))["rows"][0]["peers_beyond_limit"],
            nlohmann::json{"iperf3"});
  const auto within = rows_with_a_peer_that_takes(0.95);
  EXPECT_TRUE(within[0].peers_beyond_limit().empty()) << "no more than the spread";
  EXPECT_EQ(table("wire", within, {2}).find("limit is none"), std::string::npos);
}

TEST(Table, NamesSizesKindsAndPeers) {
  const auto text = table("put-bw", summarise(two_pairs_with_a_drift()), {4});
  for (const char* word : {"1m", "touched", "openmpi", "openmpi_put", "(0.250)", "limit", "hop_us"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in:\n" << text;
}

TEST(Table, ShowsNoBandwidthWhereNoBytesMove) {
  EXPECT_NE(table("put-bw", summarise(two_pairs_with_a_drift()), {4}).find(" 209.72 "),
            std::string::npos);
  EXPECT_EQ(table("view", summarise(two_pairs_with_a_drift()), {4}).find(" 209.72 "),
            std::string::npos);
}

Results a_collective() {
  return {{8,
           "f32",
           2,
           {{"weft", {1, 2}}, {"limit", {1, 2}}, {"weft/limit", {1, 1}}, {"openmpi", {4, 8}}},
           {{"once_us", {3, 6}}}}};
}

TEST(Table, ShowsTheCallWithoutAPlanBesideThePlan) {
  const auto rows = summarise(a_collective());
  EXPECT_DOUBLE_EQ(rows[0].peers.at("openmpi").once_ratio, 0.75);
  EXPECT_DOUBLE_EQ(rows[0].limit.once_ratio, 3);
  EXPECT_NE(table("all_reduce", rows, {2}).find("(0.250, once 0.750)"), std::string::npos);
  const auto document = nlohmann::json::parse(json("all_reduce", rows, {2}));
  EXPECT_EQ(document["rows"][0]["ratios"]["openmpi"]["once_ratio"], 0.75);
  EXPECT_FALSE(nlohmann::json::parse(json("put-bw", summarise(two_pairs_with_a_drift()),
                                          {4}))["rows"][0]["ratios"]["openmpi"]
                   .contains("once_ratio"));
}

TEST(Table, MarksRowsWithMoreRanksThanProcessors) {
  const auto rows = summarise(two_pairs_with_a_drift());
  EXPECT_NE(table("put-bw", rows, {3}).find(" 4* "), std::string::npos);
  EXPECT_NE(table("put-bw", rows, {3}).find("* more ranks"), std::string::npos);
  EXPECT_EQ(table("put-bw", rows, {4}).find('*'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(json("put-bw", rows, {3}))["rows"][0]["crowded"], true);
  EXPECT_EQ(nlohmann::json::parse(json("put-bw", rows, {4}))["rows"][0]["crowded"], false);
}

TEST(Machine, TellsTheCongestionControlWhereRanksUseTcp) {
  const auto rows = summarise(two_pairs_with_a_drift());
  const Machine machine{4, "reno"};
  EXPECT_TRUE(table("put-bw", rows, machine).starts_with("put-bw, TCP under reno: micro"));
  EXPECT_EQ(nlohmann::json::parse(json("put-bw", rows, machine))["congestion_control"], "reno");
  EXPECT_TRUE(table("put-bw", rows, {4}).starts_with("put-bw: micro"));
  EXPECT_FALSE(nlohmann::json::parse(json("put-bw", rows, {4})).contains("congestion_control"));
}

TEST(WriteJson, SaysWhichFileCannotBeWritten) {
  try {
    write_json("/nowhere/at/all.json", "latency", {}, {2});
    FAIL() << "wrote into a folder that does not exist";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::bench
