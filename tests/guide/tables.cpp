#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>
#include <weft/pslib.hpp>
#include <weft/weft.hpp>

#include "tests/guide/samples.hpp"

// [consistency]
// The highest rank serves, the others work. Worker r draws the parameter to r.
void train(weft::World& world, const std::string& name, weft::pslib::Consistency consistency) {
  weft::pslib::ParameterServer server(world, {.dedicated_servers = 1}, name);
  weft::pslib::TableOptions options(weft::pslib::Optimizer::sgd(0.02F));
  options.consistency = consistency;
  weft::pslib::Table table = server.table("model", {{"w", {8}}}, options);
  if (server.serves()) {
    server.serve(table).or_throw();  // until every worker has closed its table
    const weft::pslib::TableStatistics seen = table.statistics();
    std::printf("%s: %lu gradients used, %lu late ones not\n", name.c_str(),
                seen.applied + seen.folded, seen.dropped);
    return;
  }
  std::ranges::fill(table.parameter("w").as<float>(), 0.0F);
  table.initialize().or_throw();
  for (int step = 0; step < 200; ++step) {
    const auto w = table.parameter("w").as<float>();
    const auto gradient = table.gradient("w").as<float>();
    for (std::size_t i = 0; i < w.size(); ++i)
      gradient[i] = w[i] - static_cast<float>(world.rank());
    table.push_pull().or_throw();
  }
  std::printf("%s: rank %d has w %.1f of version %lu\n", name.c_str(), world.rank(),
              table.parameter("w").as<float>()[0], table.version());
}

void every_consistency(weft::World& world) {
  using weft::pslib::Consistency;
  train(world, "in step", Consistency::bsp());
  train(world, "at most 2 steps apart", Consistency::ssp(2));
  train(world, "each on its own", Consistency::async());
  train(world, "the first 2 of 3", Consistency::first(2));
  train(world, "late ones later", Consistency::first(2, Consistency::Late::folded));
}
// [end]

// [sparse table]
void sparse_rows(weft::World& world) {
  weft::pslib::ParameterServer server(world, {.dedicated_servers = 1}, "sparse");
  weft::pslib::SparseTable words = server.sparse_table(
      "words", {.dim = 4, .optimizer = weft::pslib::Optimizer::sgd(1.0F), .spread = 0.0F});
  if (server.serves()) {
    server.serve(words).or_throw();
    return;
  }
  // 7 occurs twice; the last id is this worker's own.
  const auto own = static_cast<std::uint64_t>(1'000'000'000 + world.rank());
  const std::vector<std::uint64_t> ids{7, 42, 7, own};
  std::vector<float> rows(ids.size() * words.dim());
  const std::vector<float> gradients(rows.size(), 3.0F);
  words.lookup(ids, rows).or_throw();
  words.push(ids, gradients).or_throw();
  words.lookup(ids, rows).or_throw();  // with the update that all workers' pushes make
  std::printf("rank %d: 7 has %g, 42 has %g, its own row %g\n", world.rank(), rows[0], rows[4],
              rows[12]);
}
// [end]

// [checkpoint]
// Four steps, saved every second one. Called again it goes on from the newest checkpoint.
std::uint64_t four_steps(weft::World& world, const std::string& name, const char* folder) {
  weft::pslib::ParameterServer server(world, {.dedicated_servers = 1}, name);
  weft::pslib::TableOptions options(weft::pslib::Optimizer::adam(0.01F));
  options.checkpoint = {.folder = folder, .every = 2, .keep = 2};
  weft::pslib::Table table = server.table("saved", {{"w", {100}}}, options);
  if (server.serves()) {
    server.serve(table).or_throw();
    return table.version();
  }
  std::ranges::fill(table.parameter("w").as<float>(), 1.0F);  // for a table without a checkpoint
  table.initialize().or_throw();
  for (int step = 0; step < 4; ++step) {
    std::ranges::fill(table.gradient("w").as<float>(), 0.5F);
    table.push_pull().or_throw();
  }
  return table.version();
}

void checkpoints(weft::World& world, const char* folder) {
  weft::Collectives group = weft::Collectives::open(world);
  const std::uint64_t first = four_steps(world, "first run", folder);
  group.run(weft::barrier()).or_throw();  // the first table is closed everywhere
  const std::uint64_t second = four_steps(world, "second run", folder);
  if (world.rank() == 0) std::printf("saved up to version %lu, went on to %lu\n", first, second);
}
// [end]
