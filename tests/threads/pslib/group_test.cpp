// Tables and exchanges of some of a world's ranks.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/ranks.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/pslib.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;
using pslib::ParameterServer;
using pslib::Table;

constexpr std::int64_t kElements = 100;

pslib::TableOptions saved_in(const TempFolder& folder, std::uint64_t every) {
  pslib::TableOptions options(Optimizer::sgd(1.0F));
  options.checkpoint = {.folder = folder.path().string(), .every = every};
  return options;
}

/// Every step adds 1 to each element.
void step(Table& table) {
  for (float& value : table.gradient("w").as<float>()) value = -1.0F;
  table.push_pull().or_throw();
}

void expect_values(const Table& table, float value) {
  for (const float is : table.parameter("w").as<float>()) ASSERT_EQ(is, value);
}

TEST(GroupTables, GoOnAmongSomeRanksFromWhatAllHaveSaved) {
  const TempFolder folder;
  Meeting meeting(4);
  run_on(4, [&](World& world) {
    {
      ParameterServer server(world);
      Table table = server.table("model", {{"w", {kElements}}}, saved_in(folder, 2));
      table.initialize().or_throw();
      for (int i = 0; i < 5; ++i) step(table);
      expect_values(table, 5.0F);
      meeting.wait();
    }
    meeting.wait();
    if (world.rank() == 1) return meeting.wait();  // as if it were dead
    const Group group = world.group().subset(std::vector<int>{0, 2, 3});
    {
      ParameterServer server(world, group, {.dedicated_servers = 1});
      EXPECT_EQ(server.serves(), world.rank() == 3);
      Table table = server.table("model", {{"w", {kElements}}}, saved_in(folder, 2));
      if (server.works()) {
        table.initialize().or_throw();
        EXPECT_EQ(table.version(), 4U);
        expect_values(table, 4.0F);
        for (int i = 0; i < 3; ++i) step(table);
        expect_values(table, 7.0F);
      } else {
        Table* const tables[] = {&table};
        server.serve(tables).or_throw();
      }
    }
    meeting.wait();
  });
}

// Two groups of one world may have tables of the same name, and a rank may be in both.
TEST(GroupTables, OfTwoGroupsDoNotMeet) {
  run_on(3, [&](World& world) {
    const pslib::TableOptions options(Optimizer::sgd(1.0F));
    const std::vector<Group> groups{world.group().subset(std::vector<int>{0, 1}),
                                    world.group().subset(std::vector<int>{0, 2})};
    std::vector<Table> tables;
    for (const Group& group : groups) {
      if (!group.contains(world.rank())) continue;
      ParameterServer server(world, group);
      tables.push_back(server.table("model", {{"w", {kElements}}}, options));
      tables.back().initialize().or_throw();
    }
    for (Table& table : tables) {
      step(table);
      expect_values(table, 1.0F);
    }
    world.leave().or_throw();
  });
}

TEST(GroupTables, SparseOnesGoOnAmongSomeRanks) {
  const TempFolder folder;
  Meeting meeting(3);
  pslib::SparseOptions options{.dim = 4, .optimizer = Optimizer::sgd(1.0F)};
  options.spread = 0;
  options.checkpoint = {.folder = folder.path().string(), .every = 1};
  const std::vector<std::uint64_t> ids{1, 5, 9, 1000};
  const auto push = [&](pslib::SparseTable& table) {
    table.push(ids, std::vector<float>(16, -1.0F)).or_throw();
  };
  const auto expect = [&](pslib::SparseTable& table, float value) {
    std::vector<float> rows(16);
    table.lookup(ids, rows).or_throw();
    EXPECT_EQ(rows, std::vector<float>(16, value));
  };
  run_on(3, [&](World& world) {
    {
      ParameterServer server(world);
      pslib::SparseTable table = server.sparse_table("rows", options);
      push(table);
      expect(table, 1.0F);
      meeting.wait();
    }
    meeting.wait();
    if (world.rank() == 0) return meeting.wait();
    ParameterServer server(world, world.group().subset(std::vector<int>{2, 1}));
    {
      pslib::SparseTable table = server.sparse_table("rows", options);
      expect(table, 1.0F);
      push(table);
      expect(table, 2.0F);
    }
    meeting.wait();
  });
}

TEST(GroupTables, AreForMembersAlone) {
  run_on(3, [&](World& world) {
    const Group group = world.group().subset(std::vector<int>{0, 1});
    if (world.rank() == 2) {
      const ErrorDetail outside = thrown_by([&] { ParameterServer(world, group); });
      EXPECT_EQ(outside.code, Code::bad_argument);
      EXPECT_TRUE(contains(outside.message, "rank 2 is no member")) << outside.message;
    } else {
      const ErrorDetail listed =
          thrown_by([&] { ParameterServer(world, group, {.servers = {2}}); });
      EXPECT_EQ(listed.code, Code::bad_argument);
      EXPECT_TRUE(contains(listed.hint, "ranks of this group are 0, 1")) << listed.hint;
    }
  });
}

TEST(GroupRendezvous, IsBetweenMembersAlone) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    const Group group = world.group().subset(std::vector<int>{2, 0});
    if (world.rank() == 1) {
      const ErrorDetail outside = thrown_by([&] { (void)Rendezvous::open(world, group); });
      EXPECT_EQ(outside.code, Code::bad_argument);
      EXPECT_TRUE(contains(outside.message, "rank 1 is no member")) << outside.message;
      return meeting.wait();
    }
    Rendezvous rendezvous = Rendezvous::open(world, group);
    const Tensor tensor = world.allocate(DType::f32, {kElements});
    if (world.rank() == 0) {
      for (float& value : tensor.as<float>()) value = 3.0F;
      rendezvous.send(2, "w", 1, tensor).or_throw();
      rendezvous.serve().or_throw();
      const Status outside = rendezvous.send(1, "w", 1, tensor);
      EXPECT_TRUE(tells(outside, Code::bad_argument, {"rank 1 is no member"}));
      EXPECT_EQ(rendezvous.recv(1, "w", 1).status().code(), Code::bad_argument);
    } else {
      const auto received = rendezvous.recv(0, "w", 1);
      ASSERT_TRUE(received.ok()) << received.status().text();
    }
    meeting.wait();
  });
}

}  // namespace
}  // namespace weft::tests
