// Rows by id: their values depend on their own history only, and memory stays close to the
// payload's size.
#include "pslib/sparse/row_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace weft::pslib {
namespace {

using Floats = std::vector<float>;

Floats look_up(RowStore& store, const RowRules& rules, std::uint64_t id, std::uint64_t version) {
  Floats row(rules.dim);
  store.look_up(id, version, row.data());
  return row;
}

Floats initial(const RowRules& rules, std::uint64_t id) {
  Floats row(rules.dim);
  initial_row(rules, id, row.data());
  return row;
}

TEST(InitialRows, DependOnSeedAndIdAndFillTheSpreadEvenly) {
  const RowRules rules{.dim = 16, .seed = 7, .spread = 0.5F};
  RowRules other = rules;
  other.seed = 8;
  EXPECT_EQ(initial(rules, 3), initial(rules, 3));
  EXPECT_NE(initial(rules, 3), initial(rules, 4));
  EXPECT_NE(initial(rules, 3), initial(other, 3));
  double sum = 0;
  double squares = 0;
  for (std::uint64_t id = 0; id < 4096; ++id)
    for (const float value : initial(rules, id)) {
      ASSERT_GE(value, -0.5F);
      ASSERT_LT(value, 0.5F);
      sum += value;
      squares += static_cast<double>(value) * value;
    }
  EXPECT_NEAR(sum / (4096 * 16), 0.0, 0.01);
  EXPECT_NEAR(squares / (4096 * 16), 1.0 / 12, 0.005);
}

TEST(RowStores, TakeNoMemoryForRowsThatAreOnlyLookedUp) {
  const RowRules rules{.dim = 4, .seed = 1, .spread = 1.0F};
  RowStore store(rules);
  for (std::uint64_t id = 0; id < 1000; ++id)
    ASSERT_EQ(look_up(store, rules, id, 0), initial(rules, id));
  EXPECT_EQ(store.rows(), 0U);
}

TEST(RowStores, StoreWhatWasLookedUpOftenEnough) {
  const RowRules rules{.dim = 4, .seed = 1, .spread = 1.0F, .admit_after = 2};
  RowStore store(rules);
  EXPECT_EQ(store.to_update(9, 0), nullptr);
  look_up(store, rules, 9, 0);
  EXPECT_EQ(store.to_update(9, 0), nullptr);
  look_up(store, rules, 9, 0);
  ASSERT_NE(store.to_update(9, 0), nullptr);
  store.to_update(9, 0)[0] = 5.0F;
  EXPECT_EQ(look_up(store, rules, 9, 0)[0], 5.0F);
}

TEST(RowStores, KeepMemoryNearThePayloads) {
  constexpr std::size_t kRows = 100'000;
  RowStore store({.dim = 16, .seed = 1});
  for (std::uint64_t id = 0; id < kRows; ++id) store.to_update(id * 1'000'003, 0);
  EXPECT_EQ(store.rows(), kRows);
  EXPECT_LT(store.bytes(), kRows * 64 * 8 / 5);
}

// The reference by definition: every row by itself.
class Model {
 public:
  explicit Model(const RowRules& rules) : rules_(rules) {}

  Floats look_up(std::uint64_t id, std::uint64_t version) {
    Row& row = at(id, version);
    row.lookups = std::min(row.lookups + 1, rules_.admit_after);
    row.last_use = version;
    return {row.values.begin(), row.values.begin() + static_cast<std::ptrdiff_t>(rules_.dim)};
  }
  Floats* to_update(std::uint64_t id, std::uint64_t version) {
    Row& row = at(id, version);
    if (row.lookups < rules_.admit_after) return nullptr;
    row.last_use = version;
    return &row.values;
  }

 private:
  struct Row {
    Floats values;
    std::uint32_t lookups = 0;
    std::uint64_t last_use = 0;
  };
  Row& at(std::uint64_t id, std::uint64_t version) {
    const auto [found, is_new] = rows_.try_emplace(id);
    Row& row = found->second;
    const bool is_past = rules_.expire_after > 0 && version > row.last_use + rules_.expire_after;
    if (is_new || is_past) {
      row = {.values = initial(rules_, id), .last_use = version};
      row.values.resize(rules_.dim * (1 + rules_.states));
    }
    return row;
  }

  RowRules rules_;
  std::map<std::uint64_t, Row> rows_;
};

// Random ids that collide: few different ones, or ones that differ only in their high bits.
std::uint64_t random_id(std::mt19937_64& random) {
  const std::uint64_t number = random() % 300;
  return random() % 2 == 0 ? number : number << 55;
}

TEST(RowStores, EqualRowsKeptOneByOneInAnyHistory) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const RowRules rules{.dim = 1 + random() % 5,
                         .states = random() % 3,
                         .seed = random(),
                         .spread = 0.1F,
                         .admit_after = static_cast<std::uint32_t>(random() % 3),
                         .expire_after = random() % 2 * (1 + random() % 20)};
    RowStore store(rules);
    Model model(rules);
    std::uint64_t version = 0;
    for (int step = 0; step < 3000; ++step) {
      version += random() % 16 == 0 ? 1 + random() % 4 : 0;
      const std::uint64_t id = random_id(random);
      if (random() % 500 == 0) store.forget(version);
      if (random() % 2 == 0) {
        ASSERT_EQ(look_up(store, rules, id, version), model.look_up(id, version))
            << "step " << step;
        continue;
      }
      float* const row = store.to_update(id, version);
      Floats* const expected = model.to_update(id, version);
      ASSERT_EQ(row != nullptr, expected != nullptr) << "step " << step;
      if (row == nullptr) continue;
      ASSERT_TRUE(std::equal(expected->begin(), expected->end(), row)) << "step " << step;
      for (std::size_t i = 0; i < expected->size(); ++i)
        row[i] = (*expected)[i] = static_cast<float>(random() % 1000);
    }
  }
}

TEST(RowStores, GiveTheMemoryOfExpiredRowsToOthers) {
  RowStore store({.dim = 16, .seed = 1, .expire_after = 2});
  for (std::uint64_t id = 0; id < 10'000; ++id) store.to_update(id, 0);
  const std::size_t full = store.bytes();
  store.forget(3);
  EXPECT_EQ(store.rows(), 0U);
  for (std::uint64_t id = 0; id < 10'000; ++id) store.to_update(id + 10'000, 3);
  EXPECT_LT(store.bytes(), full + full / 5);
}

}  // namespace
}  // namespace weft::pslib
