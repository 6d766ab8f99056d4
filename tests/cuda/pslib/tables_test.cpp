// Workers whose parameters and gradients lie on a GPU train the same as those in host memory, by
// tables of every kind.
#include <atomic>
#include <fstream>
#include <iterator>

#include "tests/cuda/pslib/gpu_tables.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/variables.hpp"

namespace weft::tests {
namespace {

using pslib::Compression;
using pslib::Consistency;
using pslib::Optimizer;
using pslib::TableOptions;

constexpr int kSteps = 6;

/// A job, and how its table is updated. Every rank works and serves if `servers` is 0.
struct Kind {
  std::string name;
  int workers = 2;
  int servers = 0;
  int replicas = 1;
  std::function<void(TableOptions&)> set = [](TableOptions&) {};
};

/// Asynchronous ones have one worker, so that their updates have an order.
std::vector<Kind> kinds() {
  const auto by = [](Optimizer rule) {
    return [rule = std::move(rule)](TableOptions& options) { options.optimizer = rule; };
  };
  const auto of = [](Consistency consistency) {
    return [consistency](TableOptions& options) { options.consistency = consistency; };
  };
  return {{.name = "bsp"},
          {.name = "bsp_served", .servers = 2},
          {.name = "bsp_replicated", .servers = 2, .replicas = 2},
          {.name = "ssp", .workers = 1, .servers = 2, .set = of(Consistency::ssp(2))},
          {.name = "async", .workers = 1, .servers = 1, .set = of(Consistency::async())},
          {.name = "all_of_n", .workers = 2, .servers = 1, .set = of(Consistency::first(2))},
          {.name = "adam", .set = by(Optimizer::adam(0.01F))},
          {.name = "lars", .set = by(Optimizer::lars(0.01F, 0.001F))},
          {.name = "clipped", .set = [](TableOptions& options) { options.clip_norm = 0.5F; }},
          {.name = "accumulated", .set = [](TableOptions& options) { options.accumulate = 2; }},
          {.name = "f16", .set = [](TableOptions& options) { options.wire = DType::f16; }},
          {.name = "bf16_async",
           .workers = 1,
           .servers = 1,
           .set =
               [](TableOptions& options) {
                 options.wire = DType::bf16;
                 options.consistency = Consistency::async();
               }},
          {.name = "int8",
           .set = [](TableOptions& options) { options.compression = Compression::int8(); }},
          {.name = "top_k_async", .workers = 1, .servers = 1, .set = [](TableOptions& options) {
             options.compression = Compression::top_k(0.1F);
             options.consistency = Consistency::async();
           }}};
}

struct Outcome {
  std::vector<Floats> parameters;        ///< every worker's after the last step
  std::atomic<std::uint64_t> fresh = 0;  ///< gradients that servers took for those of the newest
};

/// Worker i lies in memory[i].
void train(const Kind& kind, const std::vector<Memory>& memory, Outcome& outcome) {
  outcome.parameters.resize(static_cast<std::size_t>(kind.workers));
  run_on(kind.workers + kind.servers, [&](World& world) {
    pslib::ParameterServer server(
        world, {.dedicated_servers = kind.servers, .replicas = kind.replicas, .split_bytes = 256});
    TableOptions options{Optimizer::sgd(0.1F)};
    kind.set(options);
    const auto place = static_cast<std::size_t>(world.rank());
    if (server.works()) options.memory = memory[place];
    {
      pslib::Table table = server.table("model", model(), options);
      if (server.works()) {
        const bool is_on_gpu = options.memory.is_gpu();
        EXPECT_EQ(table.parameter("a").memory().is_gpu(), is_on_gpu);
        EXPECT_EQ(table.gradient("b").memory().is_gpu(), is_on_gpu);
        if (place == 0) begin(world, table);
        table.initialize().or_throw();
        EXPECT_EQ(values_of(world, table.gradient("b")), Floats(200, 0.0F));
        for (int step = 0; step < kSteps; ++step) {
          set_gradients(world, table, step);
          table.push_pull().or_throw();
        }
        outcome.parameters[place] = parameters_of(world, table);
      } else {
        server.serve(table).or_throw();
        outcome.fresh += table.statistics().staleness[0];
      }
      if (server.works()) return world.leave().or_throw();
    }
    world.leave().or_throw();
  });
}

class GpuTables : public OnGpus, public testing::WithParamInterface<Kind> {
 protected:
  stand_in::Options options() const override { return {.delay = std::chrono::microseconds(200)}; }
};

TEST_P(GpuTables, TrainAsThoseInHostMemory) {
  const Kind& kind = GetParam();
  const auto workers = static_cast<std::size_t>(kind.workers);
  Outcome host;
  train(kind, std::vector<Memory>(workers), host);
  EXPECT_NE(host.parameters[0], Floats(237, 0.0F));
  // The servers of these learn of each push how old its parameters were.
  const bool has_words = kind.servers == 1;
  if (has_words) {
    EXPECT_GE(host.fresh.load(), static_cast<std::uint64_t>(kSteps));
  }
  const auto expect_the_same = [&](const std::vector<Memory>& memory) {
    Outcome outcome;
    train(kind, memory, outcome);
    EXPECT_EQ(outcome.parameters, host.parameters);
    if (has_words) {
      EXPECT_EQ(outcome.fresh.load(), host.fresh.load());
    }
  };
  expect_the_same(std::vector<Memory>(workers, Memory::gpu()));
  if (workers == 1) return;
  // Each as it likes.
  expect_the_same({Memory::gpu(0), Memory::host()});
  expect_the_same({Memory::host(), Memory::gpu()});
}

INSTANTIATE_TEST_SUITE_P(Of, GpuTables, testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

/// Both ranks work and serve, rank 0 on a GPU, over each fabric.
class GpuTablesOver : public OnGpus, public testing::WithParamInterface<Over> {
 protected:
  stand_in::Options options() const override { return options_for(GetParam()); }
};

TEST_P(GpuTablesOver, Train) {
  Floats last[2];
  run_over(GetParam(), [&](World& world) {
    pslib::ParameterServer server(world, {.split_bytes = 256});
    TableOptions options{Optimizer::sgd(0.1F)};
    if (world.rank() == 0) options.memory = Memory::gpu();
    pslib::Table table = server.table("model", model(), options);
    if (world.rank() == 0) begin(world, table);
    table.initialize().or_throw();
    for (int step = 0; step < kSteps; ++step) {
      set_gradients(world, table, step);
      table.push_pull().or_throw();
    }
    last[world.rank()] = parameters_of(world, table);
    world.leave().or_throw();
  });
  EXPECT_EQ(last[0], last[1]);
  Outcome host;
  train({.name = "bsp"}, {Memory::host(), Memory::host()}, host);
  EXPECT_EQ(last[0], host.parameters[0]);
}

INSTANTIATE_TEST_SUITE_P(Over, GpuTablesOver, testing::ValuesIn(some_fabrics()),
                         [](const auto& info) { return name_of(info.param); });

class GpuTable : public OnGpus {};

TEST_F(GpuTable, TellsWhatWasStaged) {
  const TempFolder folder;
  std::string staged;
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world, {.metrics_folder = folder.path().string()});
    TableOptions options;
    options.memory = Memory::gpu();
    pslib::Table table = server.table("model", model(), options);
    table.initialize().or_throw();
    const std::uint64_t bytes =
        edge_of(world, "ps/ps/model/gradient", Role::publishes).counters.staged_bytes;
    EXPECT_GE(bytes, 237 * sizeof(float));
    for (int step = 0; step < 3; ++step) table.push_pull().or_throw();
    const EdgeReport pushes = edge_of(world, "ps/ps/model/gradient", Role::publishes);
    EXPECT_EQ(pushes.way, "staged");
    EXPECT_EQ(pushes.counters.staged_bytes, 4 * bytes);
    EXPECT_EQ(pushes.counters.device_copies, 4U);
    ASSERT_EQ(table_pages().size(), 1U);
    const stats::TableView page = std::move(table_pages().front());
    EXPECT_EQ(page.page().gpu.staged_bytes.get(), 8 * bytes) << "pushes, and as many pulls";
    EXPECT_EQ(page.page().gpu.device_copies.get(), 8U);
    staged = std::to_string(8 * bytes);
    world.leave().or_throw();
  });
  std::ifstream file(folder.path() / "ps.model.0.prom");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string labels = R"({server="ps",table="model",rank="0"} )";
  for (const std::string& line : {"weft_ps_staged_bytes_total" + labels + staged + '\n',
                                  "weft_ps_device_copies_total" + labels + "8\n"})
    EXPECT_NE(text.find(line), text.npos) << line << "in: " << text;
}

// A context costs memory of the GPU, so the rank's own stays closed unless it is used.
TEST_F(GpuTable, LeavesOtherGpusClosed) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's log";
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world);
    TableOptions options;
    options.memory = Memory::gpu(1);  // the rank's own is 0
    pslib::Table table = server.table("model", model(), options);
    EXPECT_EQ(control()->calls("cuMemsetD8Async"), 2U) << "each buffer is cleared once";
    table.initialize().or_throw();
    table.push_pull().or_throw();
    EXPECT_EQ(control()->calls("cuDevicePrimaryCtxRetain"), 1U);
    world.leave().or_throw();
  });
}

TEST_F(GpuTable, CostsACopyAPushAndAPull) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's log";
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world);
    TableOptions options;
    options.memory = Memory::gpu();
    pslib::Table table = server.table("model", model(), options);
    table.initialize().or_throw();
    expect_steady(*control(), 2, [&] { table.push_pull().or_throw(); });
    world.leave().or_throw();
  });
}

// The third copy brings the version of the gradients' parameters, a line behind them.
TEST_F(GpuTable, CostsASmallCopyMoreIfAsynchronous) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's log";
  run_pair(
      [&](World& world) {
        pslib::ParameterServer server(world, {.dedicated_servers = 1});
        TableOptions options;
        options.memory = Memory::gpu();
        options.consistency = Consistency::async();
        pslib::Table table = server.table("model", model(), options);
        table.initialize().or_throw();
        expect_steady(*control(), 3, [&] { table.push_pull().or_throw(); });
        world.leave().or_throw();
      },
      [](World& world) {
        pslib::ParameterServer server(world, {.dedicated_servers = 1});
        TableOptions options;
        options.consistency = Consistency::async();
        {
          pslib::Table table = server.table("model", model(), options);
          server.serve(table).or_throw();
        }
        world.leave().or_throw();
      });
}

TEST_F(GpuTable, RefusesWhatIsOfHostMemory) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    TableOptions options;
    options.memory = Memory::gpu(0);
    pslib::Table table = server.table("model", model(), options);
    table.initialize().or_throw();
    table.push().or_throw();
    const std::initializer_list<std::string> words{"table \"model\"", "GPU 0", "call pull()"};
    EXPECT_TRUE(tells(table.wait_updated(), Code::bad_argument, words));
    table.pull().or_throw();
    EXPECT_TRUE(tells(table.view("a").status(), Code::bad_argument, words));
    EXPECT_TRUE(tells(table.view_piece(table.pieces()[0]).status(), Code::bad_argument, words));
    EXPECT_TRUE(tells(thrown_by([&] {
                        options.memory = Memory::gpu(9);
                        (void)server.table("other", model(), options);
                      }),
                      Code::bad_argument, {"no GPU 9", "other"}));
    world.leave().or_throw();
  });
}

// The round of a shard waits for all workers.
TEST_F(GpuTable, RefusesWhatIsOfHostMemoryBeforeItWaits) {
  Meeting refused(2);
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world);
    TableOptions options;
    if (world.rank() == 0) options.memory = Memory::gpu(0);
    pslib::Table table = server.table("model", model(), options);
    table.initialize().or_throw();
    if (world.rank() == 0) {
      table.push().or_throw();
      EXPECT_TRUE(tells(table.wait_updated(Deadline::after(std::chrono::milliseconds(200))),
                        Code::bad_argument, {"GPU 0", "call pull()"}));
    }
    refused.wait();
    if (world.rank() == 1) table.push().or_throw();
    table.pull().or_throw();
    world.leave().or_throw();
  });
}

TEST_F(GpuTable, IsRefusedToAGraph) {
  run_on(1, [](World& world) {
    dataflow::Executor executor(world, dataflow::Graph(), dataflow::Kernels());
    pslib::ParameterServer server(world);
    TableOptions options;
    options.memory = Memory::gpu(0);
    pslib::Table table = server.table("model", {{"a", {37}}}, options);
    EXPECT_TRUE(tells(thrown_by([&] { pslib::TableVariables(world, executor, table); }),
                      Code::bad_argument, {"'a'", "GPU 0", "graphs work in host memory"}));
    world.leave().or_throw();
  });
}

TEST_F(GpuTable, IsRefusedToARankThatOnlyServes) {
  run_pair(
      [](World& world) {
        pslib::ParameterServer server(world, {.dedicated_servers = 1});
        EXPECT_NE(thrown_by([&] {
                    (void)server.table("model", model(), TableOptions(),
                                       Deadline::after(std::chrono::seconds(5)));
                  }).code,
                  Code::ok);
      },
      [](World& world) {
        pslib::ParameterServer server(world, {.dedicated_servers = 1});
        TableOptions options;
        options.memory = Memory::gpu(1);
        EXPECT_TRUE(tells(thrown_by([&] { (void)server.table("model", model(), options); }),
                          Code::bad_argument,
                          {"table \"model\"", "GPU 1", "only serves", "works() is false"}));
        world.leave().or_throw();
      });
}

}  // namespace
}  // namespace weft::tests
