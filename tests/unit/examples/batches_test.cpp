#include "batches.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace {

using charlm::Batch;
using charlm::Batches;

constexpr int kLength = 5;
constexpr int kGlobal = 12;

std::vector<std::int32_t> counting(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

// The first token of each window; with counting tokens, that is the window's position in the text.
std::vector<std::int32_t> starts(std::span<const std::int32_t> tokens, std::uint64_t step, int rank,
                                 int ranks, std::uint64_t seed = 1) {
  const Batches batches(tokens, kLength, kGlobal, rank, ranks, seed);
  Batch batch;
  batches.fill(step, batch);
  return {batch.inputs.begin(), batch.inputs.begin() + batches.sequences()};
}

TEST(Batches, the_global_batch_is_the_same_for_any_number_of_ranks) {
  const auto tokens = counting(1000);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const auto whole = starts(tokens, step, 0, 1);
    ASSERT_EQ(whole.size(), static_cast<std::size_t>(kGlobal));
    for (const int ranks : {2, 3, 4, 6, 12}) {
      std::vector<std::int32_t> joined;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto part = starts(tokens, step, rank, ranks);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_EQ(joined, whole) << ranks << " ranks, step " << step;
    }
  }
}

TEST(Batches, windows_are_runs_of_the_text_and_targets_the_next_characters) {
  const auto tokens = counting(1000);
  const Batches batches(tokens, kLength, kGlobal, 1, 3, 7);
  Batch batch;
  batches.fill(3, batch);
  const auto width = static_cast<std::size_t>(batches.sequences());
  ASSERT_EQ(batch.inputs.size(), width * kLength);
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    EXPECT_EQ(batch.inputs[i], batch.inputs[i % width] + static_cast<std::int32_t>(i / width));
    EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
  }
}

TEST(Batches, steps_and_seeds_give_other_windows) {
  const auto tokens = counting(100000);
  EXPECT_NE(starts(tokens, 1, 0, 1), starts(tokens, 2, 0, 1));
  EXPECT_NE(starts(tokens, 1, 0, 1, 1), starts(tokens, 1, 0, 1, 2));
  EXPECT_EQ(starts(tokens, 1, 0, 1, 1), starts(tokens, 1, 0, 1, 1));
}

TEST(Batches, every_place_is_reached_and_none_beyond_the_end) {
  const auto tokens = counting(kLength + 7);
  std::set<std::int32_t> seen;
  for (std::uint64_t step = 0; step < 50; ++step)
    for (const std::int32_t start : starts(tokens, step, 0, 1)) seen.insert(start);
  EXPECT_EQ(seen, (std::set<std::int32_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Batches, the_shortest_text_has_one_window) {
  const auto tokens = counting(kLength + 1);
  for (const std::int32_t start : starts(tokens, 1, 0, 1)) EXPECT_EQ(start, 0);
}

}  // namespace
