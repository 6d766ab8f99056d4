// Copies of a table's tensors are under way while a deadline passes, the table or the GPU goes.
#include <algorithm>
#include <atomic>

#include "tests/cuda/pslib/gpu_tables.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// Copies take tens of milliseconds.
class TablesUnderWay : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }

  static pslib::TableOptions on_gpu() {
    pslib::TableOptions options{pslib::Optimizer::sgd(1.0F)};
    options.memory = Memory::gpu(0);
    return options;
  }
  /// A rank that works and serves, by a table that has its parameters: 1, 2, ...
  static void run(const pslib::TableOptions& options,
                  const std::function<void(World&, pslib::Table&)>& body) {
    run_on(1, [&](World& world) {
      pslib::ParameterServer server(world);
      pslib::Table table = server.table("model", model(), options);
      begin(world, table);
      table.initialize().or_throw();
      body(world, table);
      (void)world.leave();
    });
  }
  static Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(1)); }
  static void set_all(World& world, const pslib::Table& table, float value) {
    for (const auto& spec : table.specs())
      set_values(world, table.gradient(spec.name),
                 Floats(static_cast<std::size_t>(spec.shape.elements()), value));
  }
  /// The first parameters minus the sum of the gradients so far.
  static void expect_moved(World& world, const pslib::Table& table, float by) {
    EXPECT_EQ(values_of(world, table.parameter("a")), counted(37, 1 - by));
    EXPECT_EQ(values_of(world, table.parameter("b")), counted(200, 1 - by));
  }
  std::uint64_t copies() const { return control()->calls("cuMemcpyAsync"); }
};

TEST_F(TablesUnderWay, OutliveDeadlines) {
  run(on_gpu(), [&](World& world, pslib::Table& table) {
    set_all(world, table, 2);
    const std::uint64_t before = copies();
    EXPECT_TRUE(
        tells(table.push_pull(at_once()), Code::timeout,
              {"push", "table \"model\"", "GPU 0 has not copied the gradients", "goes on"}));
    table.push().or_throw();
    EXPECT_TRUE(tells(table.pull(at_once()), Code::timeout,
                      {"pull", "table \"model\"", "GPU 0 has not copied", "goes on"}));
    EXPECT_EQ(table.push().code(), Code::bad_argument) << "the last push has not been pulled";
    // As a loop that does something else meanwhile.
    while (table.pull(Deadline::at({})).code() == Code::timeout)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(copies() - before, 2U) << "calls that time out leave the copy going";
    expect_moved(world, table, 2);
    table.push_pull().or_throw();
    expect_moved(world, table, 4);
  });
}

// The words behind the gradients are one more copy, which may not be made anew while that of the
// gradients reads them.
TEST_F(TablesUnderWay, OutliveDeadlinesOfAnAsynchronousTable) {
  const auto with_server = [](pslib::TableOptions options,
                              const std::function<void(World&, pslib::Table&)>& worker) {
    options.consistency = pslib::Consistency::async();
    run_on(2, [&](World& world) {
      pslib::ParameterServer server(world, {.dedicated_servers = 1});
      {
        pslib::TableOptions own = options;
        if (server.serves()) own.memory = Memory::host();
        pslib::Table table = server.table("model", model(), own);
        if (server.works())
          worker(world, table);
        else
          server.serve(table).or_throw();
      }
      (void)world.leave();
    });
  };
  with_server(on_gpu(), [&](World& world, pslib::Table& table) {
    begin(world, table);
    std::uint64_t before = copies();
    const auto patiently = [](const std::function<Status()>& call) {
      Status status;
      while ((status = call()).code() == Code::timeout)
        std::this_thread::sleep_for(milliseconds(1));
      return status;
    };
    patiently([&] { return table.initialize(Deadline::at({})); }).or_throw();
    EXPECT_EQ(copies() - before, 4U) << "the first gradients, their words, a push and a pull";
    expect_moved(world, table, 0);
    set_all(world, table, 2);
    before = copies();
    const Status late = patiently([&] {
      Status status = table.push_pull(Deadline::at({}));
      const bool is_pushed = status || status.detail().operation == "pull";
      return is_pushed ? Status() : status;
    });
    late.or_throw();
    if (table.version() == 0) patiently([&] { return table.pull(Deadline::at({})); }).or_throw();
    EXPECT_EQ(copies() - before, 3U) << "the words, a push and a pull";
    expect_moved(world, table, 2);
  });
}

TEST_F(TablesUnderWay, OutliveTheDeadlineOfTheirCreation) {
  control()->restart({.delay = std::chrono::seconds(1)});
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world);
    EXPECT_TRUE(tells(thrown_by([&] {
                        (void)server.table("model", model(), on_gpu(),
                                           Deadline::after(milliseconds(20)));
                      }),
                      Code::timeout, {"table", "GPU 0 has not cleared"}));
    // The copy keeps its memory until it ends, and a later one looks after that.
    const Tensor host = world.allocate(DType::f32, {8});
    EXPECT_TRUE(soon([&] {
      world.copy(host, host);
      return std::ranges::none_of(world.report().arenas, [](const ArenaReport& arena) {
        return arena.sort.starts_with("GPU") && arena.used_bytes != 0;
      });
    }));
    (void)world.leave();
  });
}

TEST_F(TablesUnderWay, OutliveTheDeadlineOfTheFirstCall) {
  run_on(1, [&](World& world) {
    for (const bool is_compressed : {false, true}) {
      pslib::ParameterServer server(world);
      pslib::TableOptions options = on_gpu();
      if (is_compressed) options.compression = pslib::Compression::int8();
      pslib::Table table = server.table(is_compressed ? "small" : "model", model(), options);
      begin(world, table);
      int late = 0;
      Status status;
      while ((status = table.initialize(Deadline::after(milliseconds(3)))).code() == Code::timeout)
        ++late;
      status.or_throw();
      EXPECT_GT(late, 0);
      expect_moved(world, table, 0);
      EXPECT_EQ(values_of(world, table.gradient("b")), Floats(200, 0.0F));
      EXPECT_TRUE(tells(table.initialize(), Code::bad_argument, {"once"}));
    }
    world.leave().or_throw();
  });
}

// It is left to clear the gradients, which hold the first parameters.
TEST_F(TablesUnderWay, PushNothingAfterAFirstCallThatFailedAtItsEnd) {
  control()->restart({});
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world);
    pslib::Table table = server.table("model", model(), on_gpu());
    begin(world, table);
    control()->refuse("cuMemsetD8Async", 1, DriverStatus::unknown);
    EXPECT_TRUE(tells(table.initialize(), Code::system,
                      {"initialize", "table \"model\"", "cuMemsetD8Async"}));
    EXPECT_TRUE(tells(table.push(), Code::bad_argument, {"initialize() again"}));
    EXPECT_TRUE(tells(table.push_pull(), Code::bad_argument, {"initialize() again"}));
    table.initialize().or_throw();
    table.push_pull().or_throw();
    expect_moved(world, table, 0);
    EXPECT_TRUE(tells(table.initialize(), Code::bad_argument, {"once"}));
    world.leave().or_throw();
  });
}

TEST_F(TablesUnderWay, EndWithTheDriversRefusals) {
  control()->restart({});
  run(on_gpu(), [&](World& world, pslib::Table& table) {
    float moved = 0;
    for (const char* function :
         {"cuCtxPushCurrent_v2", "cuMemcpyAsync", "cuEventRecord", "cuEventQuery"}) {
      set_all(world, table, 1);
      moved += 1;
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(table.push(), Code::system,
                        {"push", "table \"model\"", "GPU 0", "CUDA_ERROR_UNKNOWN"}))
          << function;
      table.push().or_throw();
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(table.pull(), Code::system,
                        {"pull", "table \"model\"", "GPU 0", "CUDA_ERROR_UNKNOWN"}))
          << function;
      table.pull().or_throw();
      expect_moved(world, table, moved);
    }
  });
}

TEST_F(TablesUnderWay, EndWithAGpuThatIsLost) {
  for (const bool is_compressed : {false, true}) {
    pslib::TableOptions options = on_gpu();
    if (is_compressed) options.compression = pslib::Compression::int8();
    run(options, [&](World& world, pslib::Table& table) {
      set_all(world, table, 0);
      EXPECT_EQ(table.push_pull(at_once()).code(), Code::timeout);
      control()->lose(0, DriverStatus::ecc_uncorrectable);
      EXPECT_TRUE(tells(table.push(), Code::system,
                        {"table \"model\"", "GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
      control()->lose(0, DriverStatus::success);
      table.push_pull().or_throw();
      expect_moved(world, table, 0);
    });
  }
}

TEST_F(TablesUnderWay, OutliveTheirTable) {
  for (const bool pulls : {false, true})
    run_on(1, [&](World& world) {
      {
        pslib::ParameterServer server(world);
        pslib::Table table = server.table("model", model(), on_gpu());
        table.initialize().or_throw();
        if (pulls) table.push().or_throw();
        EXPECT_EQ((pulls ? table.pull(at_once()) : table.push_pull(at_once())).code(),
                  Code::timeout);
      }
      // Their memory is free once a later copy has looked after them.
      const Tensor host = world.allocate(DType::f32, {8});
      const std::uint64_t used = host.bytes() < 64 ? 64 : host.bytes();
      EXPECT_TRUE(soon([&] {
        world.copy(host, host);
        for (const ArenaReport& arena : world.report().arenas)
          if ((arena.sort == "data" && arena.used_bytes > used) ||
              ((arena.sort == "published" || arena.sort.starts_with("GPU")) &&
               arena.used_bytes != 0))
            return false;
        return true;
      }));
    });
}

TEST_F(TablesUnderWay, EndWhenTheOnlyServerHasGone) {
  std::atomic<bool> is_under_way = false;
  Meeting gone(2);
  Meeting seen(2);
  run_pair(
      [&](World& world) {
        pslib::ParameterServer server(world, {.dedicated_servers = 1});
        pslib::Table table = server.table("model", model(), on_gpu());
        table.initialize().or_throw();
        EXPECT_EQ(table.push_pull(at_once()).code(), Code::timeout) << "a copy is under way";
        is_under_way = true;
        gone.wait();
        table.push().or_throw();
        EXPECT_TRUE(tells(table.pull(), Code::closed, {"table \"model\"", "rank 1"}));
        seen.wait();
        (void)world.leave();
      },
      [&](World& world) {
        pslib::ParameterServer server(world, {.dedicated_servers = 1});
        {
          pslib::Table table = server.table("model", model(), pslib::Optimizer::sgd(1.0F));
          while (!is_under_way)
            EXPECT_EQ(server.serve(table, Deadline::after(milliseconds(20))).code(), Code::timeout);
        }
        gone.wait();
        seen.wait();
        (void)world.leave();
      });
}

}  // namespace
}  // namespace weft::tests
