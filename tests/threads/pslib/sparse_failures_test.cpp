// Sparse tables where a call is late or wrong, or a rank is gone.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/threads/pslib/sparse_job.hpp"
#include "tests/threads/pslib/sparse_reference.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using pslib::Optimizer;
using pslib::SparseOptions;
using pslib::SparseTable;
using std::chrono::milliseconds;

TEST(LateSparseCalls, EndInTimeAndGoOnWhenMadeAgain) {
  Meeting meeting(2);
  run_sparse(2, 0, plain(Consistency::bsp()), [&](World& world, SparseTable& table) {
    const Ids ids{1, 2, 3};
    const Floats gradients(12, 1.0F);
    Floats rows(12);
    table.lookup(ids, rows).or_throw();
    table.push(ids, gradients).or_throw();
    if (world.rank() == 0) {
      const Status status = table.lookup(ids, rows, Deadline::after(milliseconds(50)));
      EXPECT_EQ(status.code(), Code::timeout) << status.text();
    }
    meeting.wait();
    table.lookup(ids, rows).or_throw();
    EXPECT_EQ(rows, Floats(12, -1.0F));
    if (world.rank() == 0) {
      Status status =
          table.push_lookup(ids, gradients, ids, rows, Deadline::after(milliseconds(50)));
      EXPECT_EQ(status.code(), Code::timeout) << status.text();
      status = table.lookup(ids, rows);
      EXPECT_TRUE(tells(status, Code::bad_argument, {"push_lookup() has not ended"}));
    }
    meeting.wait();
    table.push_lookup(ids, gradients, ids, rows).or_throw();
    EXPECT_EQ(rows, Floats(12, -2.0F));
  });
}

TEST(LostSparseWorkers, EndSynchronousTablesAndAreNamed) {
  Meeting meeting(3);
  Meeting end(3);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    auto table =
        std::make_unique<SparseTable>(server.sparse_table("rows", plain(Consistency::bsp())));
    const Ids ids{1, 2};
    Floats rows(8);
    meeting.wait();  // all have the table
    if (world.rank() == 2) {
      meeting.wait();
      SparseTable* const tables[] = {table.get()};
      const Status status = server.serve({}, tables);
      EXPECT_TRUE(tells(status, Code::closed, {"rank 0 closed table \"rows\""}));
    } else {
      if (world.rank() == 1) table->push(ids, rows).or_throw();
      if (world.rank() == 0) table.reset();
      meeting.wait();
      if (world.rank() == 1) {
        const Status status = table->lookup(ids, rows);
        EXPECT_EQ(status.code(), Code::closed) << status.text();
        if (!status) {
          EXPECT_EQ(status.detail().peer, 0) << status.text();
        }
        EXPECT_EQ(status.detail().operation, "lookup");
        EXPECT_EQ(table->lookup(ids, rows).code(), Code::closed) << "from then on";
        EXPECT_EQ(table->flush().detail().operation, "flush");
      }
    }
    table.reset();
    end.wait();
    (void)world.leave();
  });
}

TEST(LostSparseWorkers, AreNamedToRanksThatServeToo) {
  Meeting meeting(3);
  Meeting survivors(2);
  run_on(3, [&](World& world) {
    {
      pslib::ParameterServer server(world);
      SparseTable table = server.sparse_table("rows", plain(Consistency::bsp()));
      const Ids ids{1, 2, 3};
      Floats rows(12);
      table.lookup(ids, rows).or_throw();
      meeting.wait();
      if (world.rank() != 1) {
        const Status status = table.push_lookup(ids, rows, ids, rows);
        EXPECT_TRUE(status.code() == Code::peer_left || status.code() == Code::closed)
            << status.text();
        if (!status) {
          EXPECT_EQ(status.detail().peer, 1) << status.text();
        }
        survivors.wait();  // else the first rank to end would be the other's reason
      }
    }
    (void)world.leave();
  });
}

TEST(LostSparseServers, AreNamedToTheWorkers) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 1});
    {
      SparseTable table = server.sparse_table("rows", plain(Consistency::async()));
      meeting.wait();
      if (world.rank() == 0) {
        const Ids ids{1, 2};
        Floats rows(8);
        const Status status = table.lookup(ids, rows);
        EXPECT_TRUE(status.code() == Code::closed || status.code() == Code::peer_left)
            << status.text();
        if (!status) {
          EXPECT_EQ(status.detail().peer, 1) << status.text();
        }
      }
    }
    (void)world.leave();
  });
}

TEST(SparseMisuse, IsRefusedWithWhatToTry) {
  run_on(1, [](World& world) {
    pslib::ParameterServer server(world);
    const auto refused = [&](auto change) {
      SparseOptions options = plain(Consistency::bsp());
      change(options);
      return thrown_by([&] { (void)server.sparse_table("rows", options); }).text();
    };
    const auto nothing = [](SparseOptions&) {};
    EXPECT_TRUE(contains(refused([](auto& o) { o.dim = 0; }), "rows of 0 elements"));
    EXPECT_TRUE(contains(refused([](auto& o) { o.request_rows = 0; }), "requests of 0 rows"));
    EXPECT_TRUE(contains(refused([](auto& o) { o.spread = -1.0F; }), "spread of -1"));
    EXPECT_TRUE(
        contains(refused([](auto& o) { o.wire = DType::i32; }), "wire must be f32, f16 or bf16"));
    EXPECT_TRUE(contains(refused([](auto& o) {
                           o.wire = DType::f16;
                           o.spread = 1e5F;
                         }),
                         "a spread of 100000, which is inf as f16"));
    EXPECT_TRUE(contains(refused([](auto& o) {
                           o.wire = DType::f16;
                           o.spread = 1e-9F;
                         }),
                         "a spread of 1e-09, which is 0 as f16"));
    EXPECT_TRUE(contains(refused([](auto& o) { o.optimizer = Optimizer::lars(0.1F, 0.0F); }),
                         "no server has"));
    EXPECT_TRUE(contains(refused([](auto& o) { o.consistency = Consistency::first(1); }),
                         "take bsp, ssp or async"));
    EXPECT_TRUE(contains(refused([](auto& o) { o.consistency = Consistency::async(); }),
                         "dedicated_servers"));
    EXPECT_EQ(refused(nothing), ErrorDetail{.code = Code::ok}.text());

    SparseTable table = server.sparse_table("good", plain(Consistency::bsp()));
    const Ids ids{1, 2};
    Floats rows(7);
    EXPECT_TRUE(contains(table.lookup(ids, rows).text(), "2 ids and 7 elements of rows"));
    EXPECT_TRUE(contains(table.push(ids, rows).text(), "2 ids and 7 elements of gradients"));
  });
}

}  // namespace
}  // namespace weft::tests
