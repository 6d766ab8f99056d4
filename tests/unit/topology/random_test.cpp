// Invariants of selection on random machines.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>

#include "tests/unit/topology/machines.hpp"
#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "topology/select/balance.hpp"

namespace weft::topology {
namespace {

bool full() { return std::getenv("WEFT_TEST_FULL") != nullptr; }

std::uint64_t first_seed() {
  const char* seed = std::getenv("WEFT_TEST_SEED");
  return seed == nullptr ? std::random_device{}() : std::strtoull(seed, nullptr, 10);
}

template <typename Body>
void for_seeds(int count, Body body) {
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    SCOPED_TRACE(fmt::format("replay with WEFT_TEST_SEED={}", seed));
    std::mt19937_64 random(seed);
    body(random);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(AnyMachine, GivesTheSameChoiceInWhateverOrderItIsFound) {
  for_seeds(full() ? 20'000 : 300, [](std::mt19937_64& random) {
    const Machine machine = random_machine(random);
    const Model model = machine.build();
    const Selection selection = select(model, spread_ranks(model, 9));
    const Model shuffled = machine.build_shuffled(random);
    EXPECT_EQ(summary(model, selection),
              summary(shuffled, select(shuffled, spread_ranks(shuffled, 9))));
    const Model again = import_text(to_json(model, selection), "round trip");
    EXPECT_EQ(summary(model, selection), summary(again, select(again, spread_ranks(again, 9))));
  });
}

TEST(AnyMachine, SharesEqualNicsEvenly) {
  for_seeds(full() ? 20'000 : 300, [](std::mt19937_64& random) {
    const Model model = random_machine(random).build();
    const int count = std::uniform_int_distribution(1, 20)(random);
    const Selection selection = select(model, spread_ranks(model, count));
    std::vector<int> load(model.nics.size());
    std::map<int, std::vector<int>> takers;  // of each NIC, the ranks whose rail it is
    for (const Choice& choice : selection.choices) {
      if (choice.nic != kNone) ++load[static_cast<std::size_t>(choice.nic)];
      for (const int rail : choice.rails) takers[rail].push_back(choice.rank);
      // A usable NIC is taken if there is one, and no unusable one is.
      EXPECT_EQ(choice.nic == kNone, choice.rails.empty());
    }
    for (const auto& [a, ranks_a] : takers)
      for (const auto& [b, ranks_b] : takers)
        if (ranks_a == ranks_b) {
          EXPECT_LE(load[static_cast<std::size_t>(a)] - load[static_cast<std::size_t>(b)], 1);
        }
    for (const Choice& choice : selection.choices)
      for (const int rail : choice.rails)
        EXPECT_LE(load[static_cast<std::size_t>(choice.nic)],
                  load[static_cast<std::size_t>(rail)] + 1)
            << "rank " << choice.rank << " would be better off";
  });
}

TEST(AnyMachine, PathsAreTheSameFromBothEnds) {
  for_seeds(full() ? 5000 : 100, [](std::mt19937_64& random) {
    const Model model = random_machine(random).build();
    for (int a = 0; a < static_cast<int>(model.pci.size()); ++a)
      for (int b = 0; b < a; ++b) {
        const Path there = path_between(model, a, b);
        const Path back = path_between(model, b, a);
        ASSERT_EQ(there.path_class, back.path_class);
        ASSERT_EQ(there.hops, back.hops);
        ASSERT_EQ(there.gbytes, back.gbytes);
      }
  });
}

/// The smallest possible sum of squared loads, by exhaustive search.
int best_by_trying(const std::vector<Wish>& wishes, std::vector<int>& load, std::size_t next) {
  if (next == wishes.size()) {
    int sum = 0;
    for (const int one : load) sum += one * one;
    return sum;
  }
  if (wishes[next].nics.empty()) return best_by_trying(wishes, load, next + 1);
  int best = 1 << 20;
  for (const int nic : wishes[next].nics) {
    ++load[static_cast<std::size_t>(nic)];
    best = std::min(best, best_by_trying(wishes, load, next + 1));
    --load[static_cast<std::size_t>(nic)];
  }
  return best;
}

/// The wishes of up to 7 ranks among `nics` NICs, each as a set of bits.
rc::Gen<std::vector<unsigned>> any_wishes(int nics) {
  const auto any_set =
      rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0U, 1U << unsigned(nics)));
  return rc::gen::resize(7, rc::gen::container<std::vector<unsigned>>(any_set));
}

RC_GTEST_PROP(Balance, IsAsEvenAsTheWishesAllow, ()) {
  const int nics = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(1, 5));
  std::vector<Wish> wishes;
  for (const unsigned bits : *any_wishes(nics)) {
    wishes.emplace_back();
    for (int nic = 0; nic < nics; ++nic)
      if ((bits >> unsigned(nic) & 1U) != 0) wishes.back().nics.push_back(nic);
  }
  std::vector<int> card(static_cast<std::size_t>(nics));
  for (int nic = 0; nic < nics; ++nic) card[static_cast<std::size_t>(nic)] = nic / 2;
  const Assignment assignment = balance(wishes, card);
  std::vector<int> load(card.size());
  int squares = 0;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const auto& own = wishes[i].nics;
    RC_ASSERT((assignment.nic[i] == kNone) == own.empty());
    if (own.empty()) continue;
    RC_ASSERT(std::find(own.begin(), own.end(), assignment.nic[i]) != own.end());
    ++load[static_cast<std::size_t>(assignment.nic[i])];
  }
  for (const int one : load) squares += one * one;
  std::fill(load.begin(), load.end(), 0);
  RC_ASSERT(squares == best_by_trying(wishes, load, 0));
}

/// 64 GPUs and 64 NICs; `flat`: all at one host bridge, so that each NIC is a rail of every rank.
std::string large_machine(bool flat) {
  std::string xml = "<system version=\"1\">\n";
  for (int cpu = 0; cpu < 8; ++cpu) {
    if (!flat || cpu == 0)
      xml += fmt::format("<cpu numaid=\"{}\" affinity=\"{:08x}\">\n", cpu, 0xfU << (4 * cpu));
    for (int i = 0; i < 8; ++i) {
      if (!flat)
        xml += fmt::format(
            "<pci busid=\"{:04x}:{:02x}:00.0\" class=\"0x060400\" link_speed=\"32 GT/s\" "
            "link_width=\"16\">\n",
            cpu, 0x10 * i + 1);
      xml += fmt::format(
          "<pci busid=\"{0:04x}:{1:02x}:00.0\" class=\"0x030200\" link_speed=\"32 GT/s\" "
          "link_width=\"16\"/>\n<pci busid=\"{0:04x}:{2:02x}:00.0\" class=\"0x020700\" "
          "link_speed=\"32 GT/s\" link_width=\"16\"><nic><net name=\"mlx5_{3}\" "
          "speed=\"400000\" port=\"1\"/></nic></pci>\n",
          cpu, 0x10 * i + 2, 0x10 * i + 3, 63 - 8 * cpu - i);
      if (!flat) xml += "</pci>\n";
    }
    if (!flat || cpu == 7) xml += "</cpu>\n";
  }
  return xml + "</system>\n";
}

TEST(LargeMachine, IsReadAndChosenForWithoutDelay) {
  for (const bool flat : {false, true}) {
    const auto begin = std::chrono::steady_clock::now();
    const Model model = import_text(large_machine(flat), "64 GPUs");
    const Selection selection = select(model, rank_per_gpu(model));
    const auto took =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin);
    ASSERT_EQ(selection.choices.size(), 64U);
    std::vector<int> load(64);
    for (const Choice& choice : selection.choices) ++load.at(static_cast<std::size_t>(choice.nic));
    EXPECT_EQ(*std::max_element(load.begin(), load.end()), 1);
    // Counts work, since times on a busy machine prove nothing: each pair is computed once, and no
    // rank moves again.
    EXPECT_EQ(selection.paths_computed, 64U * 64U);
    EXPECT_LE(selection.matching_steps, 64U * 64U);
    RecordProperty(flat ? "flat_ms" : "tree_ms", fmt::format("{:.1f}", took.count()));
    std::fprintf(stderr, "64 GPUs, 64 NICs%s: %.1f ms\n", flat ? ", one host bridge" : "",
                 took.count());
  }
}

}  // namespace
}  // namespace weft::topology
