// Wrong calls are refused with an error that says what to do, and the table goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/threads/pslib/training.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;
using pslib::Options;
using pslib::TensorSpec;

void expect_refused(const Status& status, const std::string& words) {
  EXPECT_TRUE(tells(status, Code::bad_argument, {words}));
}

TEST(TableMisuse, CallsOutOfOrderAreRefusedAndTheTableGoesOn) {
  run_on(2, [](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
    expect_refused(table.push(), "initialize()");
    expect_refused(table.pull(), "push()");
    expect_refused(table.view("bias").status(), "pull()");
    table.initialize().or_throw();
    expect_refused(table.initialize(), "once");
    expect_refused(table.pull(), "push()");
    expect_refused(table.wait_updated(), "push()");
    table.push().or_throw();
    expect_refused(table.push(), "pull()");
    expect_refused(table.push_pull(), "pull()");
    expect_refused(table.view("bias").status(), "pull()");
    table.pull().or_throw();
    EXPECT_EQ(table.version(), 1U);
    table.push_pull().or_throw();
    EXPECT_EQ(table.version(), 2U);
    world.leave().or_throw();
  });
}

TEST(TableMisuse, APullMayGoOnForInitializeButNotEndIt) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
    std::ranges::fill(table.parameter("bias").as<float>(), 3.0F);
    if (world.rank() == 0) {
      EXPECT_EQ(table.initialize(Deadline::at({})).code(), Code::timeout);
    }
    meeting.wait();
    if (world.rank() == 0) {
      table.pull().or_throw();
      expect_refused(table.push(), "initialize() again");
    }
    table.initialize().or_throw();
    for (const float element : table.gradient("bias").as<float>()) EXPECT_EQ(element, 0);
    table.push_pull().or_throw();
    for (const float element : table.parameter("bias").as<float>()) EXPECT_EQ(element, 3);
    expect_refused(table.initialize(), "once");
    world.leave().or_throw();
  });
}

TEST(TableMisuse, AGroupOfAnotherWorldIsRefused) {
  Group group;
  run_on(2, [&](World& world) {
    if (world.rank() == 0) group = world.group();
    (void)world.leave();
  });
  run_on(1, [&](World& world) {
    const ErrorDetail refused =
        thrown_by([&] { const pslib::ParameterServer server(world, group); });
    EXPECT_TRUE(tells(refused, Code::bad_argument, {"the group has rank 1", "1 ranks"}));
    EXPECT_EQ(refused.operation, "parameter server");
  });
}

TEST(TableErrors, SpeakOfTablesWorkersAndServers) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    const auto soon_late = [] { return Deadline::after(std::chrono::milliseconds(100)); };
    const auto expect_words = [](const ErrorDetail& late, const char* operation,
                                 const std::string& table) {
      EXPECT_TRUE(tells(late, Code::timeout, {"table \"" + table + '"'}));
      EXPECT_EQ(late.operation, operation) << late.text();
      for (const char* word : {"ps/", "slot", "view", "owner", "published"})
        EXPECT_FALSE(contains(late.text(), word)) << word << " in: " << late.text();
    };
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    pslib::SparseOptions rows;
    rows.dim = 4;
    {
      auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
      auto sparse = server.sparse_table("rows", rows);
      if (server.works()) {
        const ErrorDetail late = table.initialize(soon_late()).detail();
        expect_words(late, "initialize", "model");
        EXPECT_TRUE(contains(late.text(), "the server on rank 2 (")) << late.text();
        const std::vector<std::uint64_t> ids{1, 2};
        std::vector<float> values(8);
        expect_words(sparse.lookup(ids, values, soon_late()).detail(), "lookup", "rows");
      }
      meeting.wait();
    }
    if (world.rank() == 0)
      expect_words(thrown_by([&] {
                     (void)server.table("other", Regression::specs(), Optimizer::sgd(1.0F),
                                        soon_late());
                   }),
                   "table", "other");
    meeting.wait();
  });
}

TEST(TableMisuse, FoldersWithANulAreRefused) {
  run_ranks(
      1,
      [](World& world) {
        const TempFolder folder;
        const std::string cut = folder.path().string() + std::string("/a\0b", 4);
        pslib::ParameterServer server(world);
        pslib::TableOptions options;
        options.checkpoint = {.folder = cut, .every = 1};
        const ErrorDetail saved =
            thrown_by([&] { (void)server.table("model", Regression::specs(), options); });
        EXPECT_EQ(saved.code, Code::bad_argument) << saved.text();
        EXPECT_TRUE(contains(saved.text(), "checkpoint.folder")) << saved.text();
        Options told;
        told.metrics_folder = cut;
        const ErrorDetail metrics =
            thrown_by([&] { const pslib::ParameterServer other(world, told, "other"); });
        EXPECT_EQ(metrics.code, Code::bad_argument) << metrics.text();
        EXPECT_TRUE(contains(metrics.text(), "metrics_folder")) << metrics.text();
        EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
        world.leave().or_throw();
      },
      settings());
}

TEST(TableMisuse, ATableBeyondAllMemoryIsExhaustedAndNamed) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    const ErrorDetail huge = thrown_by([&] {
      (void)server.table("huge", {{"t", {std::int64_t{1} << 46}}}, Optimizer::sgd(1.0F),
                         Deadline::after(std::chrono::seconds(2)));
    });
    EXPECT_EQ(huge.code, Code::exhausted) << huge.message;
    EXPECT_TRUE(contains(huge.message, "table \"huge\"")) << huge.message;
    world.leave().or_throw();
  });
}

TEST(TableMisuse, UnknownTensorsAreAnsweredWithTheNamesThereAre) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
    table.initialize().or_throw();
    for (const ErrorDetail& detail : {thrown_by([&] { (void)table.parameter("wieght"); }),
                                      thrown_by([&] { (void)table.gradient("wieght"); }),
                                      table.view("wieght").status().detail()}) {
      EXPECT_TRUE(tells(detail, Code::bad_argument, {"\"wieght\"", "weight, bias"}));
    }
  });
}

TEST(TableMisuse, WorkersCallsAreRefusedToARankThatOnlyServes) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {0}, .servers = {1}});
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
    meeting.wait();
    if (world.rank() == 0) return;
    expect_refused(table.initialize(), "serve()");
    expect_refused(table.push(), "serve()");
    expect_refused(table.pull(), "serve()");
    expect_refused(table.view("bias").status(), "serve()");
    EXPECT_EQ(thrown_by([&] { (void)table.gradient("bias"); }).code, Code::bad_argument);
  });
}

TEST(TableMisuse, SpecsThatMakeNoTableAreRefused) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    const auto refusal = [&](std::vector<TensorSpec> specs, const Optimizer& optimizer) {
      const auto detail = thrown_by([&] { (void)server.table("m", specs, optimizer); });
      EXPECT_EQ(detail.code, Code::bad_argument) << detail.text();
      return detail.text();
    };
    const auto sgd = Optimizer::sgd(1.0F);
    EXPECT_TRUE(contains(refusal({}, sgd), "no tensors"));
    EXPECT_TRUE(contains(refusal({{"a", Shape{2}}, {"a", Shape{3}}}, sgd), "\"a\" twice"));
    EXPECT_TRUE(contains(refusal({{"a", Shape{2, 0}}}, sgd), "[2, 0]"));
    EXPECT_TRUE(contains(refusal({{"a", Shape{2}}}, Optimizer::adam(1.0F, 2.0F)), "beta1"));
    EXPECT_NO_THROW((void)server.table("m", {{"a", Shape{2}}}, sgd)) << "nothing was left over";
  });
}

TEST(TableMisuse, RanksThatAreNoneOrTwiceOrLeftOutAreRefused) {
  run_on(2, [](World& world) {
    const auto refusal = [&](const Options& options) {
      const auto detail = thrown_by([&] { pslib::ParameterServer server(world, options); });
      EXPECT_EQ(detail.code, Code::bad_argument) << detail.text();
      return detail.text();
    };
    EXPECT_TRUE(contains(refusal({.workers = {0, 2}, .servers = {}}), "rank 2"));
    EXPECT_TRUE(contains(refusal({.workers = {}, .servers = {-1}}), "rank -1"));
    EXPECT_TRUE(contains(refusal({.workers = {0, 1, 0}, .servers = {}}), "more than once"));
    EXPECT_TRUE(contains(refusal({.workers = {0}, .servers = {0}}), "rank 1 neither"));
  });
}

// Ranks that describe a table differently all get an error with both descriptions.
void expect_mismatch(int ranks, const std::function<void(World&)>& make, const std::string& usual,
                     const std::string& odd) {
  run_on(ranks, [&](World& world) {
    const auto detail = thrown_by([&] { make(world); });
    EXPECT_TRUE(tells(detail, Code::mismatch, {usual, odd}));
    EXPECT_EQ(detail.rank, world.rank());
  });
}

TEST(TableMismatch, IsSeenByEveryRankWithBothSidesValues) {
  const int odd_rank = 1;
  for (const int ranks : {2, 3, 5}) {
    SCOPED_TRACE(ranks);
    const auto make = [&](World& world, const Options& options, std::vector<TensorSpec> specs,
                          const Optimizer& optimizer) {
      pslib::ParameterServer server(world, options);
      (void)server.table("model", std::move(specs), optimizer);
    };
    const auto is_odd = [&](const World& world) { return world.rank() == odd_rank; };
    const auto specs = Regression::specs();
    const auto sgd = Optimizer::sgd(0.1F);
    expect_mismatch(
        ranks,
        [&](World& world) {
          auto mine = specs;
          if (is_odd(world)) mine[1].shape = Shape{8};
          make(world, {}, mine, sgd);
        },
        "\"bias\" [7]", "\"bias\" [8]");
    expect_mismatch(
        ranks,
        [&](World& world) {
          auto mine = specs;
          if (is_odd(world)) mine.pop_back();
          make(world, {}, mine, sgd);
        },
        "2 tensors", "1 tensors");
    expect_mismatch(
        ranks,
        [&](World& world) { make(world, {}, specs, is_odd(world) ? Optimizer::sgd(0.2F) : sgd); },
        "sgd(learning_rate 0.1)", "sgd(learning_rate 0.2)");
    expect_mismatch(
        ranks,
        [&](World& world) {
          Options options;
          if (is_odd(world)) options.servers = {0};
          make(world, options, specs, sgd);
        },
        "servers [0, 1", "servers [0]");
  }
}

TEST(TableMismatch, LeavesTheWorldUsable) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world);
    const float rate = world.rank() == 0 ? 0.1F : 0.2F;
    const auto make = [&](float learning_rate) {
      return server.table("model", Regression::specs(), Optimizer::sgd(learning_rate));
    };
    EXPECT_EQ(thrown_by([&] { (void)make(rate); }).code, Code::mismatch);
    meeting.wait();
    auto table = make(0.1F);
    table.initialize().or_throw();
    table.push_pull().or_throw();
    world.leave().or_throw();
  });
}

}  // namespace
}  // namespace weft::tests
