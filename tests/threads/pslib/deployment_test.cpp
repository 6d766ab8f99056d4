// The assignment of workers, servers and tensors to ranks.
#include <gtest/gtest.h>

#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;
using pslib::Options;

/// Makes a server on each rank and returns the table's shard map; ranks that only serve do so.
std::string shard_map(int ranks, const Options& options, const Config& config = settings()) {
  std::string map;
  run_on(ranks, config, [&](World& world) {
    pslib::ParameterServer server(world, options);
    auto table = server.table("model", {{"a", Shape{64}}, {"b", Shape{3}}}, Optimizer::sgd(1.0F));
    if (world.rank() == 0) map = table.describe();
    if (!server.works()) {
      pslib::Table* const tables[] = {&table};
      server.serve(tables).or_throw();
    } else {
      table.initialize().or_throw();
      std::ranges::fill(table.gradient("b").as<float>(), 2.0F);
      table.push_pull().or_throw();
      for (const float p : table.parameter("b").as<float>()) EXPECT_EQ(p, -2.0F);
    }
    world.leave().or_throw();
  });
  return map;
}

ErrorDetail refusal(int ranks, const Options& options, const Config& config = settings()) {
  ErrorDetail detail;
  run_on(ranks, config, [&](World& world) {
    const auto mine = thrown_by([&] { pslib::ParameterServer server(world, options); });
    if (world.rank() == 0) detail = mine;
  });
  return detail;
}

TEST(Deployment, IsColocatedUnlessSomethingElseIsSaid) {
  EXPECT_EQ(shard_map(2, {.split_bytes = 256}),
            "server 0: 140 bytes: a[0, 32), b\nserver 1: 128 bytes: a[32, 64)\n");
}

TEST(Deployment, LeavesTheHighestRanksToServe) {
  EXPECT_EQ(shard_map(3, {.dedicated_servers = 1}), "server 2: 268 bytes: a, b\n");
  EXPECT_EQ(shard_map(4, {.dedicated_servers = 3}),
            "server 1: 256 bytes: a\nserver 2: 12 bytes: b\nserver 3: 0 bytes: nothing\n");
}

TEST(Deployment, LeavesOneRankOfAHostToServe) {
  EXPECT_EQ(shard_map(3, {.one_server_per_host = true}), "server 2: 268 bytes: a, b\n");
}

TEST(Deployment, IsTheEnvironmentsWhereTheProgramLeavesItOpen) {
  EXPECT_EQ(shard_map(3, {}, settings().with(Setting::ps_servers, "1")),
            "server 2: 268 bytes: a, b\n");
  EXPECT_EQ(shard_map(2, {}, settings().with(Setting::ps_servers, "host")),
            "server 1: 268 bytes: a, b\n");
  EXPECT_EQ(shard_map(3, {.dedicated_servers = 2}, settings().with(Setting::ps_servers, "1")),
            "server 1: 256 bytes: a\nserver 2: 12 bytes: b\n");
}

TEST(Deployment, RefusesWhatMakesNoSenseHere) {
  const auto expect = [](const ErrorDetail& detail, Code code, const std::string& words) {
    EXPECT_EQ(detail.code, code) << detail.text();
    EXPECT_TRUE(contains(detail.text(), words)) << detail.text();
  };
  expect(refusal(2, {.dedicated_servers = 2}), Code::bad_argument, "2 dedicated servers among 2");
  expect(refusal(2, {.dedicated_servers = -1}), Code::bad_argument, "-1 dedicated servers");
  expect(refusal(2, {.workers = {0}, .servers = {}, .dedicated_servers = 1}), Code::bad_argument,
         "exclude each other");
  expect(refusal(1, {.one_server_per_host = true}), Code::bad_argument, "no host has two ranks");
  for (const char* value : {"none", "0"})
    EXPECT_THROW((void)settings().with(Setting::ps_servers, value), Error) << value;
  for (const char* value : {"2", "99"})
    expect(refusal(2, {}, settings().with(Setting::ps_servers, value)), Code::bad_config,
           "WEFT_PS_SERVERS=\"" + std::string(value) + "\"");
}

TEST(Deployment, MayDifferFromServerToServerInOneWorld) {
  run_on(4, [](World& world) {
    pslib::ParameterServer one(world, {.workers = {0, 1, 2}, .servers = {3}}, "one");
    pslib::ParameterServer other(world, {.workers = {0, 1, 2}, .servers = {3, 0}}, "other");
    auto a = one.table("a", {{"t", Shape{40}}}, Optimizer::sgd(1.0F));
    auto b = other.table("a", {{"t", Shape{50}}}, Optimizer::sgd(2.0F));
    if (world.rank() == 3) {
      EXPECT_FALSE(one.works());
      EXPECT_TRUE(one.serves());
      pslib::Table* const tables[] = {&a, &b};
      one.serve(tables).or_throw();
    } else {
      EXPECT_EQ(other.serves(), world.rank() == 0);
      for (pslib::Table* table : {&a, &b}) {
        table->initialize().or_throw();
        std::ranges::fill(table->gradient("t").as<float>(), 1.0F);
        table->push_pull().or_throw();
      }
      EXPECT_EQ(a.parameter("t").as<float>()[39], -1.0F);
      EXPECT_EQ(b.parameter("t").as<float>()[49], -2.0F);
    }
    world.leave().or_throw();
  });
}

}  // namespace
}  // namespace weft::tests
