// Tables whose workers need not be in step: bounded staleness, asynchronous, the first k of n.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using pslib::Optimizer;
using pslib::Table;
using pslib::TableOptions;
using std::chrono::milliseconds;

std::vector<pslib::TensorSpec> specs() { return {{"a", Shape{300}}, {"b", Shape{7}}}; }

TableOptions asynchronous(const Consistency& consistency) {
  TableOptions options(Optimizer::sgd(1.0F));
  options.consistency = consistency;
  return options;
}

void fill_gradients(const Table& table, float value) {
  for (const auto& spec : specs()) std::ranges::fill(table.gradient(spec.name).as<float>(), value);
}

/// The value that all elements have; a pull that mixed two versions has several values.
float value_of(const Table& table) {
  const float first = table.parameter("a").as<float>()[0];
  for (const auto& spec : specs())
    for (const float p : table.parameter(spec.name).as<float>()) EXPECT_EQ(p, first) << spec.name;
  return first;
}

/// Ranks below `workers` run `work`, the others serve. `served` sees the table after serve() has
/// returned.
template <typename Work, typename Served>
void run_job(int workers, int servers, const TableOptions& options, const Work& work,
             const Served& served) {
  run_on(workers + servers, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = servers, .split_bytes = 256});
    {
      Table table = server.table("model", specs(), options);
      if (server.works()) {
        table.initialize().or_throw();
        work(world, table);
      } else {
        pslib::Table* const tables[] = {&table};
        server.serve(tables).or_throw();
        served(table);
      }
    }
    (void)world.leave();
  });
}

/// The pace of a worker, drawn from its seed.
class Pace {
 public:
  Pace(unsigned seed, int worker) : random_(seed * 31 + static_cast<unsigned>(worker)) {}
  void pass() {
    const auto way = random_() % 8;
    if (way == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
    if (way < 3) std::this_thread::yield();
  }

 private:
  std::mt19937 random_;
};

TEST(AsynchronousTable, AppliesEveryPushOnceAndVersionsNeverGoBack) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 40;
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Meeting meeting(kWorkers);
    run_job(
        kWorkers, 1, asynchronous(Consistency::async()),
        [&](World& world, Table& table) {
          Pace pace(seed, world.rank());
          std::uint64_t last = 0;
          float before = 0;
          for (int step = 0; step < kSteps; ++step) {
            pace.pass();
            fill_gradients(table, -1.0F);
            table.push_pull().or_throw();
            EXPECT_GT(table.version(), last) << "its own push is in";
            EXPECT_EQ(value_of(table), static_cast<float>(table.version()));
            EXPECT_GT(value_of(table), before);
            EXPECT_EQ(table.pulled().contributors.size(), 1U);
            last = table.version();
            before = value_of(table);
          }
          meeting.wait();
          fill_gradients(table, 0.0F);
          table.push_pull().or_throw();
          EXPECT_EQ(value_of(table), static_cast<float>(kWorkers * kSteps));
        },
        [](const Table& table) {
          const auto statistics = table.statistics();
          EXPECT_EQ(statistics.applied, static_cast<std::uint64_t>(kWorkers * (kSteps + 1)));
          EXPECT_EQ(statistics.dropped + statistics.folded, 0U);
          std::uint64_t counted = 0;
          for (const std::uint64_t count : statistics.staleness) counted += count;
          EXPECT_EQ(counted, statistics.applied);
        });
  }
}

TEST(AsynchronousTable, CountsTheUpdatesThatItSkips) {
  TableOptions options = asynchronous(Consistency::async());
  options.clip_norm = 1.0F;
  run_job(
      1, 1, options,
      [&](World&, Table& table) {
        const float before = value_of(table);
        fill_gradients(table, std::numeric_limits<float>::infinity());
        table.push_pull().or_throw();
        EXPECT_EQ(value_of(table), before);
        fill_gradients(table, 0.0F);
        table.push_pull().or_throw();
      },
      [](const Table& table) { EXPECT_EQ(table.statistics().skipped, 1U); });
}

TEST(AsynchronousTable, VersionsCountApplicationsOfTheRuleAndThoseOfBspEveryPush) {
  for (const bool in_step : {true, false}) {
    TableOptions options = asynchronous(in_step ? Consistency::bsp() : Consistency::async());
    options.accumulate = 3;
    run_job(
        1, 1, options,
        [&](World&, Table& table) {
          for (std::uint64_t push = 1; push <= 6; ++push) {
            fill_gradients(table, 1.0F);
            table.push_pull().or_throw();
            EXPECT_EQ(table.version(), in_step ? push : push / 3);
            EXPECT_EQ(value_of(table), -static_cast<float>(push / 3));
          }
        },
        [](const Table&) {});
  }
}

TEST(AsynchronousTable, MayBeSpreadOverServersWithSixteenBitsOnTheWire) {
  TableOptions options = asynchronous(Consistency::async());
  options.wire = DType::bf16;
  options.accumulate = 2;
  run_job(
      1, 2, options,
      [&](World&, Table& table) {
        const std::uint16_t one = 0xbf80;  // -1 in bf16
        for (const auto& spec : specs())
          for (std::size_t i = 0; i < table.gradient(spec.name).bytes(); i += 2)
            std::memcpy(table.gradient(spec.name).data() + i, &one, 2);
        for (int step = 0; step < 6; ++step) {
          table.push_pull().or_throw();
          EXPECT_EQ(table.version(), static_cast<std::uint64_t>((step + 1) / 2));
        }
        const std::uint16_t three = 0x4040;
        std::uint16_t last = 0;
        std::memcpy(&last, table.parameter("a").data() + 2 * 299, 2);
        EXPECT_EQ(last, three);
      },
      [](const Table&) {});
}

// Every worker writes its clock down before its push, so a pull can't see a higher clock.
TEST(BoundedStaleness, IsNeverExceeded) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 30;
  for (unsigned seed = 0; seed < 12; ++seed) {
    const std::uint32_t bound = seed % 4;
    const int servers = 1 + static_cast<int>(seed % 2);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", bound " + std::to_string(bound));
    std::array<std::atomic<int>, kWorkers> clocks{};
    run_job(
        kWorkers, servers, asynchronous(Consistency::ssp(bound)),
        [&](World& world, Table& table) {
          Pace pace(seed, world.rank());
          std::uint64_t last = 0;
          for (int clock = 1; clock <= kSteps; ++clock) {
            pace.pass();
            fill_gradients(table, 1.0F);
            clocks[static_cast<std::size_t>(world.rank())] = clock;
            table.push_pull().or_throw();
            for (const auto& other : clocks) EXPECT_GE(other, clock - static_cast<int>(bound));
            EXPECT_GE(table.version(), last);
            last = table.version();
            if (servers == 1) {
              EXPECT_EQ(value_of(table), -static_cast<float>(table.version()));
            }
          }
          // A worker that has left holds no other back: it counts as being far ahead.
          clocks[static_cast<std::size_t>(world.rank())] = kSteps + 1;
        },
        [](const Table&) {});
  }
}

TEST(BoundedStaleness, NamesTheSlowWorkerUntilItGoesOnOrCloses) {
  Meeting meeting(2);
  Meeting closing(2);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    auto table =
        std::make_unique<Table>(server.table("model", specs(), asynchronous(Consistency::ssp(2))));
    if (world.rank() == 2) {
      pslib::Table* const tables[] = {table.get()};
      server.serve(tables).or_throw();
    } else {
      table->initialize().or_throw();
      if (world.rank() == 0) {
        for (int step = 0; step < 2; ++step) table->push_pull().or_throw();
        table->push().or_throw();
        const Status status = table->pull(Deadline::after(milliseconds(50)));
        EXPECT_EQ(status.code(), Code::timeout) << status.text();
        if (!status) {
          EXPECT_EQ(status.detail().peer, 1) << status.text();
        }
        EXPECT_TRUE(contains(status.text(), "has made 0 steps")) << status.text();
        meeting.wait();
        table->pull().or_throw();
        closing.wait();
        for (int step = 0; step < 5; ++step) table->push_pull().or_throw();
      } else {
        meeting.wait();
        table->push_pull().or_throw();
        table.reset();  // from here on it is not in the quorum
        closing.wait();
      }
    }
    table.reset();
    (void)world.leave();
  });
}

/// Worker 2 of three is late for the first of the steps, which takes two.
template <typename Check>
void one_is_late(Consistency::Late late, const Check& check) {
  Meeting meeting(3);
  run_job(
      3, 1, asynchronous(Consistency::first(2, late)),
      [&](World& world, Table& table) {
        // A worker that initialized the table after that step would begin with its values, and not
        // be late.
        EXPECT_EQ(table.version(), 0U);
        meeting.wait();
        fill_gradients(table, static_cast<float>(1 << world.rank()));
        if (world.rank() != 2) {
          table.push_pull().or_throw();
          EXPECT_EQ(table.version(), 1U);
          EXPECT_EQ(table.pulled().contributors, (std::vector<int>{0, 1}));
          EXPECT_EQ(value_of(table), -1.5F);
        }
        meeting.wait();
        check(world, table, meeting);
        meeting.wait();
      },
      [&](const Table& table) {
        const auto statistics = table.statistics();
        const bool folds = late == Consistency::Late::folded;
        EXPECT_EQ(statistics.dropped, folds ? 0U : 1U);
        EXPECT_EQ(statistics.folded, folds ? 1U : 0U);
      });
}

TEST(FirstOfMany, DropTheLateGradientAndGiveItTheSameValues) {
  one_is_late(Consistency::Late::dropped, [](World& world, Table& table, Meeting&) {
    if (world.rank() != 2) return;
    table.push_pull().or_throw();
    EXPECT_EQ(table.version(), 1U);
    EXPECT_EQ(table.pulled().contributors, (std::vector<int>{0, 1}));
    EXPECT_EQ(value_of(table), -1.5F);
  });
}

TEST(FirstOfMany, FoldTheLateGradientIntoTheNextUpdate) {
  one_is_late(Consistency::Late::folded, [](World& world, Table& table, Meeting&) {
    if (world.rank() == 1) return;
    table.push_pull().or_throw();
    EXPECT_EQ(table.version(), 2U);
    EXPECT_EQ(table.pulled().contributors, (std::vector<int>{0, 2}));
    EXPECT_EQ(value_of(table), -1.5F - 2.5F);
  });
}

TEST(FirstOfMany, MayGoOnBeforeAllHaveInitializedAndTheOthersAreNotLate) {
  Meeting meeting(3);
  run_on(4, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    {
      Table table = server.table("model", specs(), asynchronous(Consistency::first(2)));
      if (server.works()) {
        // Worker 2 hands in its initial values, and can't pull before the others have done so.
        if (world.rank() == 2) {
          EXPECT_EQ(table.initialize(Deadline::after({})).code(), Code::timeout);
        }
        meeting.wait();
        if (world.rank() != 2) {
          table.initialize().or_throw();
          fill_gradients(table, static_cast<float>(1 << world.rank()));
          table.push_pull().or_throw();
        }
        meeting.wait();
        if (world.rank() == 2) table.initialize().or_throw();
        EXPECT_EQ(table.version(), 1U);
        EXPECT_EQ(table.pulled().contributors, (std::vector<int>{0, 1}));
        EXPECT_EQ(value_of(table), -1.5F);
        fill_gradients(table, static_cast<float>(1 << world.rank()));
        if (world.rank() != 1) {
          table.push_pull().or_throw();
          EXPECT_EQ(table.version(), 2U);
          EXPECT_EQ(table.pulled().contributors, (std::vector<int>{0, 2}));
          EXPECT_EQ(value_of(table), -1.5F - 2.5F);
        }
        meeting.wait();
      } else {
        pslib::Table* const tables[] = {&table};
        server.serve(tables).or_throw();
        const auto statistics = table.statistics();
        EXPECT_EQ(statistics.applied, 4U);
        EXPECT_EQ(statistics.dropped + statistics.folded, 0U);
      }
    }
    (void)world.leave();
  });
}

TEST(FirstOfMany, NameTheWorkerThatIsMissing) {
  Meeting meeting(2);
  run_job(
      2, 1, asynchronous(Consistency::first(2)),
      [&](World& world, Table& table) {
        meeting.wait();
        if (world.rank() == 0) {
          table.push().or_throw();
          const Status status = table.pull(Deadline::after(milliseconds(50)));
          EXPECT_EQ(status.code(), Code::timeout) << status.text();
          if (!status) {
            EXPECT_EQ(status.detail().peer, 1) << status.text();
          }
          EXPECT_TRUE(contains(status.text(), "has made 0 steps, this worker 1")) << status.text();
          EXPECT_TRUE(contains(status.text(), "the gradients of 2 workers")) << status.text();
        }
        meeting.wait();
        if (world.rank() == 0)
          table.pull().or_throw();
        else
          table.push_pull().or_throw();
      },
      [](const Table&) {});
}

TEST(FirstOfMany, GoOnWithThoseThatAreLeft) {
  Meeting meeting(2);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    auto table = std::make_unique<Table>(
        server.table("model", specs(), asynchronous(Consistency::first(2))));
    if (world.rank() == 2) {
      pslib::Table* const tables[] = {table.get()};
      server.serve(tables).or_throw();
      EXPECT_EQ(table->version(), 2U);
    } else {
      table->initialize().or_throw();
      table->push_pull().or_throw();
      if (world.rank() == 1) table.reset();
      if (world.rank() == 0) {
        table->push_pull().or_throw();
        EXPECT_EQ(table->pulled().contributors, (std::vector<int>{0}));
      }
      meeting.wait();
    }
    table.reset();
    (void)world.leave();
  });
}

TEST(AsynchronousTables, RefuseWhatTheyCannotKeep) {
  run_on(3, [&](World& world) {
    const auto refusal = [&](const pslib::Options& deployment, const TableOptions& options) {
      pslib::ParameterServer server(world, deployment);
      const auto detail = thrown_by([&] { (void)server.table("m", specs(), options); });
      EXPECT_EQ(detail.code, Code::bad_argument) << detail.text();
      return detail.text();
    };
    const pslib::Options two{.dedicated_servers = 2};
    TableOptions clipped = asynchronous(Consistency::async());
    clipped.clip_norm = 1.0F;
    EXPECT_TRUE(contains(refusal({}, asynchronous(Consistency::async())), "rank 0 works"));
    EXPECT_TRUE(contains(refusal(two, clipped), "norm"));
    EXPECT_TRUE(contains(refusal(two, asynchronous(Consistency::first(1))), "one server"));
    EXPECT_TRUE(contains(refusal({.dedicated_servers = 1}, asynchronous(Consistency::first(3))),
                         "3 of 2 workers"));
  });
}

}  // namespace
}  // namespace weft::tests
