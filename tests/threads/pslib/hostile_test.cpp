// Ranks that write values into their memory that no rank of a healthy job writes.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "pslib/replication/replica_words.hpp"
#include "pslib/sparse/description.hpp"
#include "pslib/sparse/request.hpp"
#include "pslib/table/agreement.hpp"
#include "pslib/table/description.hpp"
#include "tests/threads/pslib/sparse_job.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using pslib::RequestHead;

constexpr int kHonest = 0;
constexpr int kHostile = 1;
constexpr int kServer = 2;

const pslib::Options kRoles{.dedicated_servers = 1};

void publish(PublishedSlot& requests, const RequestHead& head) {
  const Tensor buffer = requests.next().value();
  std::memset(buffer.data(), 0, buffer.bytes());
  std::memcpy(buffer.data(), &head, sizeof head);
  requests.publish().or_throw();
}

/// A worker that agrees to the table and then makes these requests without waiting for an answer.
class HostileWorker {
 public:
  HostileWorker(World& world, const pslib::SparseOptions& options)
      : table_(pslib::Roles(world, kRoles), "ps", "rows", options),
        agreement_(world, table_.roles.members, table_.slot_name("contract"), table_.contract(),
                   {}),
        requests_(world.expose_published(table_.requests(kServer))),
        answers_(world.attach_published(kServer, table_.answers(kHostile))) {}

  void make(const std::vector<RequestHead>& heads) {
    for (const RequestHead& head : heads) publish(requests_, head);
  }

 private:
  pslib::SparseDescription table_;
  pslib::Agreement agreement_;
  PublishedSlot requests_;
  PublishedReader answers_;
};

struct Attack {
  const char* name;
  std::vector<RequestHead> heads;
};

const Attack kAttacks[] = {
    {"pushes", {{.pushed = std::uint64_t{1} << 20, .commits = 1, .is_last = 1}}},
    {"lookups", {{.looked_up = ~std::uint64_t{0}, .is_last = 1}}},
    {"overflow", {{.pushed = std::uint64_t{1} << 61, .commits = 1, .is_last = 1}}},
    {"flags", {{.commits = 200, .is_last = 3}}},
};

class HostileWorkers : public testing::TestWithParam<Attack> {};

TEST_P(HostileWorkers, AreRefusedByNameWhileOthersGoOn) {
  Meeting begun(3);
  Meeting end(3);
  const auto options = plain(Consistency::async());
  run_on(3, [&](World& world) {
    if (world.rank() == kHostile) {
      HostileWorker worker(world, options);
      begun.wait();
      worker.make(GetParam().heads);
      end.wait();
      return;
    }
    pslib::ParameterServer server(world, kRoles);
    {
      auto table = server.sparse_table("rows", options);
      begun.wait();
      if (world.rank() == kHonest) {
        const std::vector<std::uint64_t> ids{1, 2};
        std::vector<float> rows(8);
        for (int step = 0; step < 20; ++step)
          table.push_lookup(ids, std::vector<float>(8, 1.0F), ids, rows).or_throw();
        EXPECT_EQ(rows, std::vector<float>(8, -20.0F));
      } else {
        pslib::SparseTable* const tables[] = {&table};
        const Status status = server.serve({}, tables);
        EXPECT_EQ(status.code(), Code::mismatch) << status.text();
        EXPECT_EQ(status.detail().peer, kHostile) << status.text();
      }
    }
    end.wait();
  });
}

TEST_P(HostileWorkers, AreNamedToTheOthersOfASynchronousTable) {
  Meeting begun(3);
  Meeting end(3);
  const auto options = plain(Consistency::bsp());
  run_on(3, [&](World& world) {
    if (world.rank() == kHostile) {
      HostileWorker worker(world, options);
      begun.wait();
      worker.make(GetParam().heads);
      end.wait();
      return;
    }
    pslib::ParameterServer server(world, kRoles);
    {
      auto table = server.sparse_table("rows", options);
      begun.wait();
      if (world.rank() == kHonest) {
        const std::vector<std::uint64_t> ids{1};
        std::vector<float> rows(4);
        const Status status = table.push_lookup(ids, rows, ids, rows);
        EXPECT_EQ(status.code(), Code::closed) << status.text();
        EXPECT_EQ(status.detail().peer, kHostile) << status.text();
      } else {
        pslib::SparseTable* const tables[] = {&table};
        EXPECT_EQ(server.serve({}, tables).code(), Code::mismatch);
      }
    }
    end.wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Heads, HostileWorkers, testing::ValuesIn(kAttacks),
                         [](const auto& info) { return info.param.name; });

TEST(HostileServers, ThatAreInAnEpochThatCannotBeAreRefusedByName) {
  const pslib::Options roles{.dedicated_servers = 2, .replicas = 2};
  pslib::TableOptions options(pslib::Optimizer::sgd(1.0F));
  options.consistency = Consistency::async();
  const std::vector<pslib::TensorSpec> specs{{"t", Shape{40}}};
  Meeting begun(3);
  Meeting end(3);
  run_on(3, [&](World& world) {
    if (world.rank() == 2) {
      const pslib::Description table(pslib::Roles(world, roles), "ps", "model", specs, options);
      const pslib::Agreement agreement(world, table.roles.members, table.slot_name("contract"),
                                       table.contract(), {});
      PublishedSlot words = world.expose_published(table.replica_words());
      const PublishedSlot state = world.expose_published(table.state());
      std::vector<PublishedSlot> regions;
      for (const int home : table.homes)
        regions.push_back(world.expose_published(table.region(home)));
      const Tensor buffer = words.next().value();
      std::memset(buffer.data(), 0, buffer.bytes());
      pslib::ReplicaMessage message;
      message.epoch = std::uint64_t{1} << 60;
      const std::size_t count = pslib::ReplicaWords::count(table.roles.workers.size());
      const std::span all(reinterpret_cast<std::uint64_t*>(buffer.data()), buffer.bytes() / 8);
      pslib::ReplicaWords::store(message, all.first(count));
      begun.wait();
      words.publish().or_throw();
      end.wait();
      return;
    }
    pslib::ParameterServer server(world, roles);
    {
      auto table = server.table("model", specs, options);
      begun.wait();
      if (server.serves()) {
        pslib::Table* const tables[] = {&table};
        const Status status = server.serve(tables);
        EXPECT_EQ(status.code(), Code::mismatch) << status.text();
        EXPECT_EQ(status.detail().peer, 2) << status.text();
      } else {
        const Status status = table.initialize();
        EXPECT_EQ(status.code(), Code::closed) << status.text();
      }
    }
    end.wait();
  });
}

}  // namespace
}  // namespace weft::tests
