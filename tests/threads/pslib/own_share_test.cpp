// The bytes that servers of their own receive of each push, where they can't load from the
// workers' memory: those of the shards that it holds, with replicas as well, whatever the table's
// consistency. Only by top_k it needs more: the largest elements of a tensor lie where its
// gradients have them.
#include <gtest/gtest.h>

#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include "tests/threads/pslib/own_share.hpp"

namespace weft::tests {
namespace {

using pslib::Compression;
using pslib::Consistency;
using pslib::Optimizer;
using pslib::TableOptions;

constexpr int kPushers = 2;
constexpr std::uint64_t kPushesOfEach = 40;  ///< of each worker, besides the first one

struct Served {
  std::string what;
  int servers = 2;
  int replicas = 1;
  TableOptions options{Optimizer::sgd(0.1F)};
  double push_bytes = 1.0;  ///< of a push, for each byte of the gradients in the wire type
  bool reads_all = false;   ///< else a share
};

void PrintTo(const Served& given, std::ostream* to) { *to << given.what; }

class OwnShare : public testing::TestWithParam<Served> {};

TEST_P(OwnShare, OfEachPushIsReceivedByAServer) {
  const Served& given = GetParam();
  const Config config = settings().with(Setting::fabric, "tcp");
  run_on(kPushers + given.servers, config, [&](World& world) {
    pslib::ParameterServer server(world,
                                  {.dedicated_servers = given.servers, .replicas = given.replicas});
    double received = 0;
    std::uint64_t elements = 0;
    {
      auto table = server.table("model", shared_specs(), given.options);
      for (const auto& spec : table.specs())
        elements += static_cast<std::uint64_t>(spec.shape.elements());
      if (server.works()) {
        table.initialize().or_throw();
        const std::uint64_t before = bytes_read_from_others(world);
        for (std::uint64_t i = 0; i < kPushesOfEach; ++i) table.push_pull().or_throw();
        received = static_cast<double>(bytes_read_from_others(world) - before);
      } else {
        pslib::Table* const tables[] = {&table};
        server.serve(tables).or_throw();
        received = static_cast<double>(bytes_read_from_others(world));
      }
    }
    const auto whole = static_cast<double>(elements * size_of(given.options.wire));
    const double share = server.works() ? 1.0
                         : given.reads_all
                             ? given.push_bytes * kPushers
                             : given.push_bytes * kPushers * given.replicas / given.servers;
    const double asked = whole * share * static_cast<double>(kPushesOfEach);
    std::printf("%s, %s: %.0f bytes received, %.0f asked\n", given.what.c_str(),
                server.works() ? "a worker" : "a server", received, asked);
    EXPECT_NEAR(received, asked, 0.05 * asked);
    (void)world.leave();
  });
}

Served with(std::string what, const Consistency& consistency, const Compression& compression = {},
            int servers = 2, int replicas = 1) {
  Served given{.what = std::move(what), .servers = servers, .replicas = replicas};
  given.options.consistency = consistency;
  given.options.compression = compression;
  if (compression.kind == Compression::Kind::int8) given.push_bytes = 0.25 * (1 + 4.0 / 256);
  if (compression.kind == Compression::Kind::top_k) given.push_bytes = 2.0 * compression.ratio;
  given.reads_all = compression.kind == Compression::Kind::top_k;
  return given;
}

INSTANTIATE_TEST_SUITE_P(
    Tables, OwnShare,
    testing::Values(with("dedicated", Consistency::bsp()),
                    with("asynchronous", Consistency::async()),
                    with("bounded", Consistency::ssp(2)),
                    with("int8", Consistency::bsp(), Compression::int8()),
                    with("top_k", Consistency::bsp(), Compression::top_k(0.125F)),
                    with("int8_async", Consistency::async(), Compression::int8()),
                    with("replicated", Consistency::bsp(), {}, 3, 2),
                    with("replicated_async", Consistency::async(), {}, 3, 2)),
    [](const auto& of) { return of.param.what; });

}  // namespace
}  // namespace weft::tests
