// The longest time that calls of tables take.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/threads/pslib/sparse_job.hpp"
#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using pslib::Optimizer;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kServers = 4;
constexpr milliseconds kApart{700};

/// WEFT_TIMEOUT is 1 s, and each server begins to serve 0.7 s after the previous one.
template <typename Work, typename Serve>
void run_with_late_servers(const Work& work, const Serve& serve) {
  Meeting meeting(1 + kServers);
  run_on(1 + kServers, settings().with(Setting::timeout, "1s"), [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = kServers, .split_bytes = 64});
    if (server.works()) {
      work(server, meeting);
    } else {
      serve(server, meeting, kApart * world.rank());
    }
    (void)world.leave(Deadline::after(seconds(20)));
  });
}

/// Repeats a call until it succeeds: no call lasts longer than WEFT_TIMEOUT, and at least one times
/// out.
template <typename Call>
void expect_each_in_time(const Call& call) {
  int late = 0;
  for (Status status(ErrorDetail{}); !status;) {
    const auto begun = std::chrono::steady_clock::now();
    status = call();
    const auto lasted = std::chrono::steady_clock::now() - begun;
    EXPECT_LT(lasted, milliseconds(1600)) << "WEFT_TIMEOUT began anew in it";
    ASSERT_TRUE(status || status.code() == Code::timeout) << status.text();
    late += status ? 0 : 1;
  }
  EXPECT_GT(late, 0);
}

class LateServers : public testing::TestWithParam<Consistency> {};

TEST_P(LateServers, MakeACallOfADenseTableEndByItsOneDeadline) {
  const auto make = [](pslib::ParameterServer& server) {
    pslib::TableOptions options(Optimizer::sgd(1.0F));
    options.consistency = GetParam();
    return server.table("t", {{"t", Shape{64 * kServers}}}, options, Deadline::after(seconds(20)));
  };
  run_with_late_servers(
      [&](pslib::ParameterServer& server, Meeting& meeting) {
        auto table = make(server);
        meeting.wait();
        expect_each_in_time([&] { return table.initialize(); });
      },
      [&](pslib::ParameterServer& server, Meeting& meeting, milliseconds late) {
        auto table = make(server);
        meeting.wait();
        std::this_thread::sleep_for(late);
        pslib::Table* const tables[] = {&table};
        server.serve(tables).or_throw();
      });
}

TEST_P(LateServers, MakeACallOfASparseTableEndByItsOneDeadline) {
  const auto make = [](pslib::ParameterServer& server) {
    return server.sparse_table("rows", plain(GetParam()), Deadline::after(seconds(20)));
  };
  run_with_late_servers(
      [&](pslib::ParameterServer& server, Meeting& meeting) {
        auto table = make(server);
        meeting.wait();
        std::vector<std::uint64_t> ids(64);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
        Floats rows(ids.size() * 4);
        expect_each_in_time([&] { return table.lookup(ids, rows); });
      },
      [&](pslib::ParameterServer& server, Meeting& meeting, milliseconds late) {
        auto table = make(server);
        meeting.wait();
        std::this_thread::sleep_for(late);
        pslib::SparseTable* const tables[] = {&table};
        server.serve({}, tables).or_throw();
      });
}

INSTANTIATE_TEST_SUITE_P(Consistencies, LateServers,
                         testing::Values(Consistency::bsp(), Consistency::async()),
                         [](const auto& info) {
                           return info.param.kind == Consistency::Kind::bsp ? "bsp" : "async";
                         });

TEST(Serving, LastsWhileWorkersComputeForLongerThanAnyWait) {
  run_on(3, settings().with(Setting::timeout, "1s"), [](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    auto dense = server.table("t", {{"t", Shape{40}}}, Optimizer::sgd(1.0F));
    auto sparse = server.sparse_table("rows", plain(Consistency::bsp()));
    if (server.works()) {
      dense.initialize().or_throw();
      std::this_thread::sleep_for(seconds(3));
      dense.push_pull(Deadline::after(seconds(20))).or_throw();
      const std::vector<std::uint64_t> ids{1};
      Floats rows(4);
      sparse.push_lookup(ids, rows, ids, rows, Deadline::after(seconds(20))).or_throw();
    } else {
      pslib::Table* const tables[] = {&dense};
      pslib::SparseTable* const rows[] = {&sparse};
      const Status status = server.serve(tables, rows);
      EXPECT_TRUE(status) << status.text();
      EXPECT_EQ(dense.version(), 1U);
      EXPECT_EQ(sparse.version(), 1U);
    }
    (void)world.leave(Deadline::after(seconds(20)));
  });
}

TEST(Serving, LastsWhileAWorkerViewsForLongerThanAnyWait) {
  run_on(2, settings().with(Setting::timeout, "1s"), [](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    auto table = server.table("t", {{"t", Shape{40}}}, Optimizer::sgd(1.0F));
    if (server.works()) {
      table.initialize().or_throw();
      table.push().or_throw();
      table.wait_updated().or_throw();
      table.push().or_throw();  // the shard needs the buffer that is viewed here
      std::this_thread::sleep_for(milliseconds(2500));
      table.wait_updated(Deadline::after(seconds(20))).or_throw();
    } else {
      pslib::Table* const tables[] = {&table};
      const Status status = server.serve(tables);
      EXPECT_TRUE(status) << status.text();
      EXPECT_EQ(table.version(), 2U);
    }
    (void)world.leave(Deadline::after(seconds(20)));
  });
}

TEST(Serving, EndsByItsOwnDeadlineAndNamesAWorkerThatHasTheTable) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    auto table = server.table("t", {{"t", Shape{40}}}, Optimizer::sgd(1.0F));
    if (server.serves()) {
      pslib::Table* const tables[] = {&table};
      const Status status = server.serve(tables, {}, Deadline::after(milliseconds(200)));
      EXPECT_EQ(status.code(), Code::timeout) << status.text();
      EXPECT_EQ(status.detail().peer, 0) << status.text();
    }
    meeting.wait();
    (void)world.leave();
  });
}

}  // namespace
}  // namespace weft::tests
