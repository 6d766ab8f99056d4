// Ranks that only serve.
#include <gtest/gtest.h>

#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;

void expect_near(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-4F) << "parameter " << i;
}

Job job_with(int ranks, std::vector<int> workers, std::vector<int> servers) {
  Job job{.ranks = ranks, .options = {}, .optimizer = Optimizer::with_momentum(0.05F)};
  job.options.workers = std::move(workers);
  job.options.servers = std::move(servers);
  return job;
}

TEST(Serving, TrainsTheSameModelWhoeverServes) {
  const Floats alone = train(job_with(1, {}, {})).front();
  expect_near(train(job_with(2, {0}, {1}))[0], alone);
  expect_near(train(job_with(4, {0, 1, 2}, {3}))[1], alone);
  expect_near(train(job_with(4, {1, 3}, {2, 0}))[3], alone);
  expect_near(train(job_with(4, {0, 1, 2}, {3, 1}))[2], alone);
}

TEST(Serving, LastsForARankThatHasNoPieces) {
  const Floats alone = train(job_with(1, {}, {})).front();
  // Two tensors, none split: at least two of the four servers hold nothing.
  expect_near(train(job_with(6, {0, 1}, {2, 3, 4, 5}))[1], alone);
}

TEST(Serving, WorksOnSeveralTablesAtOnce) {
  run_on(3, [](World& world) {
    pslib::ParameterServer server(world, {.workers = {0, 1}, .servers = {2}});
    auto a = server.table("a", {{"t", Shape{40}}}, Optimizer::sgd(1.0F));
    auto b = server.table("b", {{"t", Shape{50}}}, Optimizer::sgd(1.0F));
    if (world.rank() == 2) {
      pslib::Table* const tables[] = {&a, &b};
      server.serve(tables).or_throw();
      EXPECT_EQ(a.version(), 2U);
      EXPECT_EQ(b.version(), 1U);
    } else {
      // The server takes the tables' pushes as they come: here each worker starts with another
      // table.
      pslib::Table* const first = world.rank() == 0 ? &a : &b;
      pslib::Table* const second = world.rank() == 0 ? &b : &a;
      std::ranges::fill(a.gradient("t").as<float>(), 0.0F);
      a.initialize().or_throw();
      b.initialize().or_throw();
      for (pslib::Table* table : {first, second}) {
        std::ranges::fill(table->gradient("t").as<float>(), 1.0F);
        table->push().or_throw();
      }
      first->pull().or_throw();
      second->pull().or_throw();
      a.push_pull().or_throw();
      EXPECT_FLOAT_EQ(a.parameter("t").as<float>()[39], -2.0F);
      EXPECT_FLOAT_EQ(b.parameter("t").as<float>()[49], -1.0F);
    }
    world.leave().or_throw();
  });
}

TEST(Serving, EndsWhenWorkersCloseTheirTablesAndStay) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {0, 1}, .servers = {2}});
    {
      auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
      if (world.rank() == 2) {
        pslib::Table* const tables[] = {&table};
        EXPECT_TRUE(server.serve(tables).ok());
      } else {
        table.initialize().or_throw();
        table.push_pull().or_throw();
      }
    }
    meeting.wait();
    world.leave().or_throw();
  });
}

TEST(Serving, NamesTheWorkerThatClosedEarlyWhileOthersWentOn) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {0, 1}, .servers = {2}});
    {
      auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
      if (world.rank() == 2) {
        pslib::Table* const tables[] = {&table};
        const Status status = server.serve(tables);
        EXPECT_EQ(status.code(), Code::closed) << status.text();
        if (!status) {
          EXPECT_EQ(status.detail().peer, 0);
        }
        EXPECT_TRUE(contains(status.text(), "after 0 updates")) << status.text();
      } else {
        table.initialize().or_throw();
        if (world.rank() == 1) {
          const Status status = table.push_pull();
          EXPECT_EQ(status.code(), Code::closed) << status.text();
        }
      }
    }
    meeting.wait();
    world.leave().or_throw();
  });
}

TEST(Serving, TakesTablesByTheirNames) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    pslib::SparseOptions options;
    options.dim = 2;
    const auto dense = [&](const char* name) {
      return server.table(name, {{"t", Shape{40}}}, Optimizer::sgd(1.0F));
    };
    {
      auto a = dense("a");
      auto b = dense("b");
      auto rows = server.sparse_table("rows", options);
      if (server.works()) {
        a.initialize().or_throw();
        b.initialize().or_throw();
      } else {
        server.serve({a, b}, {rows}, deadline).or_throw();
        EXPECT_TRUE(server.serve({}).ok()) << "of no tables";
      }
    }
    for (const bool in_braces : {false, true}) {
      auto one = dense(in_braces ? "in braces" : "alone");
      if (server.works())
        one.initialize().or_throw();
      else
        (in_braces ? server.serve({one}, {}, deadline) : server.serve(one)).or_throw();
    }
    auto rows = server.sparse_table("more rows", options);
    meeting.wait();
    if (server.serves()) server.serve(rows, deadline).or_throw();
    world.leave().or_throw();
  });
}

TEST(Serving, SaysInWordsOfTablesWhyItEnds) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {0, 1}, .servers = {2}});
    {
      auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
      if (world.rank() == 2) {
        const Status status = server.serve(table);
        EXPECT_EQ(status.code(), Code::closed) << status.text();
        EXPECT_TRUE(contains(status.text(), "table \"model\"")) << status.text();
        EXPECT_EQ(status.detail().operation, "serve");
        EXPECT_TRUE(status.detail().slot.empty()) << status.detail().slot;
        for (const char* word : {"ps/", "slot", "view", "owner", "attach"})
          EXPECT_FALSE(contains(status.text(), word)) << word << " in: " << status.text();
      } else if (world.rank() == 1) {
        const Status status = table.initialize();  // rank 0 closes its table and never calls it
        EXPECT_FALSE(status.ok());
        for (const char* word : {"ps/", "slot", "view", "owner", "attach"})
          EXPECT_FALSE(contains(status.text(), word)) << word << " in: " << status.text();
      }
    }
    meeting.wait();
    world.leave().or_throw();
  });
}

TEST(Serving, NamesTheWorkerWhosePushTheOthersWaitFor) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.workers = {0, 1}, .servers = {2}});
    {
      auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
      if (world.rank() == 2) {
        const Status status = server.serve(table, Deadline::after(std::chrono::milliseconds(500)));
        EXPECT_EQ(status.code(), Code::timeout) << status.text();
        EXPECT_EQ(status.detail().peer, 1) << status.text();
        EXPECT_TRUE(contains(status.text(), "has not made the push that the others wait for"))
            << status.text();
      } else {
        table.initialize().or_throw();
        if (world.rank() == 0) {
          const Status status = table.push_pull(Deadline::after(std::chrono::milliseconds(300)));
          EXPECT_EQ(status.code(), Code::timeout) << status.text();
          EXPECT_TRUE(contains(status.text(), "another worker's push")) << status.text();
        }
      }
      meeting.wait();
    }
    meeting.wait();
    world.leave().or_throw();
  });
}

TEST(Serving, IsRefusedToARankThatWorks) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
    pslib::Table* const tables[] = {&table};
    EXPECT_EQ(server.serve(tables).code(), Code::bad_argument);
  });
}

}  // namespace
}  // namespace weft::tests
