// The bytes that a rank receives in a step of a table whose shards' memory it can't load from.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {

/// Bytes that came from other ranks for slots that this rank reads.
inline std::uint64_t bytes_read_from_others(const World& world) {
  std::uint64_t bytes = 0;
  for (const auto& edge : world.report().edges)
    if (edge.role == Role::views && edge.peer != world.rank()) bytes += edge.counters.bytes_moved;
  return bytes;
}

/// Tensors that are split over the shards, and some that are not.
inline std::vector<pslib::TensorSpec> shared_specs() {
  std::vector<pslib::TensorSpec> specs;
  for (const std::int64_t size : {300'000, 70'001, 129, 16'384, 50'000, 9, 64'000})
    specs.push_back({"t" + std::to_string(specs.size()), Shape{size}});
  return specs;
}

/// The most that the rank's arenas have held.
inline std::uint64_t peak_of_arenas(const World& world) {
  std::uint64_t bytes = 0;
  for (const ArenaReport& arena : world.report().arenas) bytes += arena.peak_bytes;
  return bytes;
}

/// Every rank works and serves: it is to receive its share of every other worker's gradients, and
/// every other shard's parameters.
inline void expect_to_receive_its_own_share(World& world, Meeting& meeting,
                                            const pslib::TableOptions& options) {
  constexpr std::uint64_t kSteps = 4;
  pslib::ParameterServer server(world);
  const std::vector<pslib::TensorSpec> specs = shared_specs();
  auto table = server.table("model", specs, options);
  std::uint64_t elements = 0;
  for (const auto& spec : specs) elements += static_cast<std::uint64_t>(spec.shape.elements());
  const auto ranks = static_cast<std::uint64_t>(world.size());
  const std::uint64_t share = elements * size_of(options.wire) / ranks;

  meeting.wait();
  const std::uint64_t at_first = bytes_read_from_others(world);
  const std::uint64_t held_at_first = peak_of_arenas(world);
  table.initialize().or_throw();
  const auto kept = static_cast<double>(peak_of_arenas(world) - held_at_first);
  EXPECT_LE(kept, 1.5 * static_cast<double>(share)) << "the first worker's values of this shard";
  meeting.wait();
  const auto initially = static_cast<double>(bytes_read_from_others(world) - at_first);
  EXPECT_LE(initially, 1.05 * static_cast<double>(ranks * share)) << "the first worker's values";
  const std::uint64_t before = bytes_read_from_others(world);
  meeting.wait();
  for (std::uint64_t i = 0; i < kSteps; ++i) table.push_pull().or_throw();
  meeting.wait();
  const auto received = static_cast<double>(bytes_read_from_others(world) - before) / kSteps;
  const auto asked = static_cast<double>(2 * (ranks - 1) * share);
  EXPECT_NEAR(received, asked, 0.05 * asked);
  if (world.rank() == 0)
    std::printf(
        "%d ranks, %s: %.0f bytes received a step; P (W - 1) / S + P (S - 1) / S of %.0f bytes: "
        "%.0f\n",
        world.size(), name(options.wire).data(), received, static_cast<double>(ranks * share),
        asked);
  world.leave().or_throw();
}

/// Every rank works and serves; a step looks up and pushes far fewer rows than a request has room
/// for.
inline void expect_to_receive_what_is_asked(World& world, Meeting& meeting) {
  constexpr std::uint64_t kSteps = 6;
  constexpr std::size_t kDim = 32;
  pslib::ParameterServer server(world);
  pslib::SparseOptions options;
  options.dim = kDim;
  options.optimizer = pslib::Optimizer::sgd(0.1F);
  auto table = server.sparse_table("rows", options);
  const auto step = [&](std::size_t rows) {
    std::vector<std::uint64_t> ids(rows);
    for (std::size_t i = 0; i < rows; ++i) ids[i] = i;
    std::vector<float> values(rows * kDim, 1.0F);
    table.push_lookup(ids, values, ids, values).or_throw();
    meeting.wait();
  };
  const auto ranks = static_cast<double>(world.size());
  for (const std::size_t rows : {400U, 1200U, 100U}) {
    // The first steps tell the shards how large requests are.
    for (std::uint64_t i = 0; i < 4 * kSteps; ++i) step(rows);
    const std::uint64_t before = bytes_read_from_others(world);
    meeting.wait();
    for (std::uint64_t i = 0; i < kSteps; ++i) step(rows);
    const auto received = static_cast<double>(bytes_read_from_others(world) - before) / kSteps;
    const double request = 2 * sizeof(std::uint64_t) + kDim * sizeof(float);
    const double answer = kDim * sizeof(float);
    const double asked = (request + answer) * static_cast<double>(rows) * (ranks - 1) / ranks;
    const double heads = (ranks - 1) * 6 * 64;
    EXPECT_GE(received, 0.8 * asked);
    EXPECT_LE(received, 1.2 * asked + heads) << rows << " rows";
  }
  world.leave().or_throw();
}

}  // namespace weft::tests
