// A worker trains a dense and a sparse table, whose servers are the other ranks. Each table is
// saved at every second version; the worker prints its values at each. Pushes are a function of the
// version, so a restored job must print the same values as a job that never ended.
//   checkpoint_dies FOLDER END
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/mix64.hpp"
#include "weft/pslib.hpp"

namespace {

using namespace weft;
using pslib::Optimizer;

constexpr std::size_t kDim = 4;
constexpr std::uint64_t kRows = 3000;

/// FNV-1a of the values' bits.
std::uint64_t hash(std::span<const float> values, std::uint64_t seed = kFnv1a) {
  for (const std::byte byte : std::as_bytes(values))
    seed = fnv1a(seed, static_cast<std::uint64_t>(byte));
  return seed;
}

void print(const char* table, std::uint64_t version, std::uint64_t hash) {
  std::printf("%s %llu %016llx\n", table, static_cast<unsigned long long>(version),
              static_cast<unsigned long long>(hash));
  std::fflush(stdout);
}

void train(pslib::Table& table, std::uint64_t end) {
  const auto show = [&] {
    std::uint64_t sum = hash({});
    for (const auto& spec : table.specs()) sum = hash(table.parameter(spec.name).as<float>(), sum);
    print("dense", table.version(), sum);
  };
  table.initialize().or_throw();
  show();
  while (table.version() < end) {
    for (const auto& spec : table.specs()) {
      auto gradient = table.gradient(spec.name).as<float>();
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = static_cast<float>((i * 7 + table.version() * 13) % 101) - 50.0F;
    }
    table.push_pull().or_throw();
    show();
  }
}

void train(pslib::SparseTable& table, std::uint64_t end) {
  std::vector<std::uint64_t> all(kRows);
  for (std::uint64_t id = 0; id < kRows; ++id) all[id] = id * id;
  std::vector<float> rows(kRows * kDim);
  const auto show = [&] {
    table.lookup(all, rows).or_throw();
    print("sparse", table.version(), hash(rows));
  };
  show();
  while (table.version() < end) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = table.version(); id < kRows; id += 3) ids.push_back(id * id);
    std::vector<float> gradients(ids.size() * kDim);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = static_cast<float>((i + table.version()) % 17) - 8.0F;
    table.push(ids, gradients).or_throw();
    show();
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const pslib::CheckpointOptions saved{.folder = argv[1], .every = 2};
  const std::uint64_t end = std::strtoull(argv[2], nullptr, 10);
  World world = World::join();
  pslib::ParameterServer server(world,
                                {.dedicated_servers = world.size() - 1, .split_bytes = 4096});
  pslib::TableOptions dense(Optimizer::adam(0.01F));
  dense.checkpoint = saved;
  pslib::SparseOptions sparse{.dim = kDim, .optimizer = Optimizer::adagrad(0.1F)};
  sparse.checkpoint = saved;
  {
    pslib::Table table = server.table("dense", {{"a", Shape{40'000}}, {"b", Shape{70}}}, dense);
    pslib::SparseTable rows = server.sparse_table("sparse", sparse);
    if (server.works()) {
      train(table, end);
      train(rows, end);
    } else {
      pslib::Table* const tables[] = {&table};
      pslib::SparseTable* const sparse_tables[] = {&rows};
      server.serve(tables, sparse_tables).or_throw();
    }
  }
  (void)world.leave();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
