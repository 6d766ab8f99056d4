// The arithmetic and the output of the paper's experiments.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "benchmarks/driver/catalogue.hpp"
#include "benchmarks/experiments/distribution.hpp"
#include "benchmarks/experiments/experiment.hpp"
#include "benchmarks/experiments/fig7.hpp"
#include "benchmarks/experiments/runs.hpp"
#include "benchmarks/harness/transfer.hpp"

namespace weft::bench {
namespace {

ExperimentOptions parsed(std::vector<std::string> words) {
  words.insert(words.begin(), "weft-bench");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse_experiment(static_cast<int>(pointers.size()), pointers.data());
}

std::string refusal_of(std::vector<std::string> words) {
  try {
    parsed(std::move(words));
  } catch (const BadOption& error) {
    return error.what();
  }
  return "";
}

TEST(Distribution, TellsTheSharesAboveEachSize) {
  const auto shares = shares_above({4, 1, 1, 4});
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].of_count, 1);
  EXPECT_EQ(shares[1].size, 1U);
  EXPECT_DOUBLE_EQ(shares[1].of_count, 0.5);
  EXPECT_DOUBLE_EQ(shares[1].of_bytes, 0.8);
  EXPECT_EQ(shares[2].of_count, 0);
  EXPECT_EQ(shares[2].of_bytes, 0);
  // Between two sizes, at one, and beyond all.
  EXPECT_DOUBLE_EQ(share_above({4, 1, 1, 4}, 3).of_bytes, 0.8);
  EXPECT_DOUBLE_EQ(share_above({4, 1, 1, 4}, 4).of_bytes, 0);
  EXPECT_DOUBLE_EQ(share_above({4, 1, 1, 4}, 0).of_count, 1);
  EXPECT_DOUBLE_EQ(share_above({4, 1, 1, 4}, 100).of_count, 0);
}

TEST(Experiments, TheModelsSizesAreDistributedAsThePaperSays) {
  const Sheet sheet = run_fig6(parsed({"fig6"}));
  EXPECT_NE(sheet.title.find("279 variables"), std::string::npos);
  ASSERT_EQ(sheet.beside.size(), 2U);
  double above_10k = 0;
  double above_1m = 0;
  double bytes_above_1m = 0;
  for (const auto& row : sheet.rows) {
    const double bytes = std::get<double>(row[1]);
    const double share = std::get<double>(row[2]);
    const bool counts = std::get<std::string>(row[0]) == "variables";
    if (counts && bytes <= 10 << 10) above_10k = share;
    if (counts && bytes <= 1 << 20) above_1m = share;
    if (!counts && bytes <= 1 << 20) bytes_above_1m = share;
  }
  EXPECT_GT(above_10k, 0.5);
  EXPECT_GT(above_1m, 0.2);
  EXPECT_NEAR(bytes_above_1m, 0.96, 0.01);
}

TEST(Experiments, Table1IsThePapersToTheLastDigit) {
  const Sheet sheet = run_table1(parsed({"table1"}));
  ASSERT_EQ(sheet.rows.size(), 6U);
  for (const auto& row : sheet.rows) {
    EXPECT_EQ(row[1], row[2]);
    EXPECT_EQ(row[3], row[4]);
    EXPECT_EQ(row[5], row[6]);
  }
  EXPECT_EQ(sheet.beside.at(0), "all figures are the paper's, to the last digit");
}

TEST(Experiments, AnUnknownWordIsAnsweredWithTheKnownOnes) {
  EXPECT_EQ(refusal_of({"fig8", "--models", "lstm,resnet"}),
            "--models: no 'resnet'; there are gru, lstm, inception, alexnet, fcn-5, vgg-16");
  EXPECT_EQ(refusal_of({"fig8", "--batches", "3"}),
            "--batches: no '3'; there are 1, 2, 4, 8, 16, 32, 64, 128");
  EXPECT_EQ(refusal_of({"fig8", "--fabric", "ib"}), "--fabric: no 'ib'; there are shm, tcp, verbs");
  EXPECT_EQ(
      refusal_of({"fig8", "--ways", "mpi"}),
      "--ways: no 'mpi'; there are views, slots, rendezvous, copied, traced, registered, rpc, "
      "grpc");
  EXPECT_EQ(refusal_of({"fig10", "--ranks", "9"}),
            "--ranks: no '9'; there are 1, 2, 3, 4, 5, 6, 7, 8");
  EXPECT_NE(refusal_of({"fig8", "--nope"}), "");
  EXPECT_EQ(parsed({"fig8", "--quick"}).run_count(), 3U);
  EXPECT_EQ(parsed({"fig8"}).run_count(), 5U);
  EXPECT_EQ(parsed({"fig8", "--quick", "--runs", "7"}).run_count(), 7U);
}

TEST(Experiments, ARatioIsOfRunsAndHasASpread) {
  Measured measured;
  const Point views{"lstm", 2, 8, "views"};
  const Point rpc{"lstm", 2, 8, "rpc"};
  // Both were slow in the second run: their ratio was not.
  for (const double rate : {20.0, 10.0, 30.0}) {
    measured.add(views, rate, {});
    measured.add(rpc, rate / 2, {});
  }
  const auto ratio = measured.ratio(views, rpc);
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->median, 2);
  EXPECT_DOUBLE_EQ(ratio->spread, 0);
  EXPECT_EQ(gain_text(ratio), "100 % (spread 0 %)");
  EXPECT_FALSE(measured.ratio(views, {"lstm", 2, 8, "grpc"}));
  EXPECT_EQ(gain_text(std::nullopt), "not measured");
}

TEST(Experiments, ARankAloneRunsOneWay) {
  ExperimentOptions own;
  own.models = {"lstm"};
  own.batches = {32};
  own.ranks = {1, 2};
  own.ways = {"views", "rpc", "views"};
  const auto jobs = jobs_of(parsed({"fig10"}), own);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].ways.size(), 1U);
  EXPECT_EQ(jobs[1].ways, (std::vector<std::string>{"views", "rpc"}));
  EXPECT_EQ(jobs_of(parsed({"fig10", "--ranks", "4"}), own).at(0).ranks, 4);
}

TEST(Experiments, AJobIsReadAsItWasWritten) {
  TrainingOptions job{.model = "gru", .batches = {1, 32}, .ways = {"views", "rpc"}, .ranks = 3};
  job.check = true;
  auto words = arguments(job);
  words.insert(words.begin(), "weft-bench");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  const auto argc = static_cast<int>(pointers.size());
  ASSERT_TRUE(is_training(argc, pointers.data()));
  const TrainingOptions read = parse_training(argc, pointers.data());
  EXPECT_EQ(read.model, job.model);
  EXPECT_EQ(read.batches, job.batches);
  EXPECT_EQ(read.ways, job.ways);
  EXPECT_EQ(read.ranks, 3);
  EXPECT_EQ(read.budget, job.budget);
  EXPECT_TRUE(read.check);
}

TEST(Sheet, HasTheSameRowsAsTextCsvAndJson) {
  Sheet sheet{.name = "fig8", .title = "a title", .columns = {"model", "steps_per_s", "over"}};
  sheet.rows = {{std::string("a, b"), 1234.5678, std::string()}};
  sheet.beside = {"the paper: 3"};
  EXPECT_EQ(
      text_of(sheet),
      "fig8: a title\n  model  steps_per_s  over\n   a, b         1235     -\nthe paper: 3\n");
  EXPECT_EQ(csv_of(sheet), "model,steps_per_s,over\n\"a, b\",1234.57,\n");
  const auto json = nlohmann::json::parse(json_of(sheet));
  EXPECT_EQ(json.at("experiment"), "fig8");
  EXPECT_EQ(json.at("rows").at(0).at("model"), "a, b");
  EXPECT_EQ(json.at("rows").at(0).at("steps_per_s"), 1234.5678);
  EXPECT_TRUE(json.at("rows").at(0).at("over").is_null());
  EXPECT_EQ(json.at("beside").at(0), "the paper: 3");
}

TEST(Fig7, ComparesEachKindAtTheSameSizes) {
  std::vector<Row> rows;
  const auto add = [&](std::string_view kind, std::size_t size, double us) {
    Row& row = rows.emplace_back();
    row.size = size;
    row.kind = kind;
    row.weft_us = us;
  };
  add(kByPut, 1, 10);
  add(kByPut, 2, 20);
  add(kByView, 1, 5);
  add(kByCopy, 1, 15);
  add(kByCopy, 2, 20);
  rows[0].peers["grpc"].us = 100;
  const std::string text = fig7_text(rows);
  EXPECT_NE(text.find("copying takes 1.00 to 1.50 times as long as put, 3.00 to 3.00 as view"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("gRPC takes 10.00 to 10.00 times as long as put, not measured as view"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("RPC takes not measured times"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::bench
