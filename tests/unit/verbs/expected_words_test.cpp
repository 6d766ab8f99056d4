// The meaning of immediates: which word is set to which value, and when a put is complete.
#include "p2p/transport/notification_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "p2p/transport/verbs/immediate.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {
namespace {

using Arrival = NotificationTable::Arrival;

constexpr std::uint64_t kRound = std::uint64_t{1} << Immediate::kSequenceBits;

TEST(AnImmediate, SurvivesItsWord) {
  for (const std::uint32_t index : {0U, 1U, 77U, Immediate::kMaxIndex})
    for (const bool in_pieces : {false, true})
      for (const std::uint32_t sequence : {0U, 1U, 2048U, Immediate::kSequenceMask}) {
        const auto back = Immediate::of(Immediate{index, in_pieces, sequence}.word());
        EXPECT_EQ(back.index, index);
        EXPECT_EQ(back.in_pieces, in_pieces);
        EXPECT_EQ(back.sequence, sequence);
      }
}

TEST(AnImmediate, KeepsOnlyTheLowBitsOfASequence) {
  const Immediate immediate{5, true, static_cast<std::uint32_t>(7 * kRound + 3)};
  EXPECT_EQ(Immediate::of(immediate.word()).sequence, 3U);
  EXPECT_EQ(Immediate::of(immediate.word()).index, 5U);
}

TEST(AnImmediate, IsNeverAReservedWord) {
  const std::uint32_t largest =
      Immediate{Immediate::kMaxIndex, true, Immediate::kSequenceMask}.word();
  EXPECT_LT(largest, std::min(Immediate::kFence, Immediate::kAck));
  EXPECT_GT(Immediate::of(Immediate::kFence).index, Immediate::kMaxIndex);
  EXPECT_GT(Immediate::of(Immediate::kAck).index, Immediate::kMaxIndex);
}

TEST(AnImmediate, IsTheNearestNumberAcrossEveryWrap) {
  for (const std::uint64_t known : {kRound - 2, kRound, 5 * kRound - 1, (kRound << 30U) + 4095})
    for (std::int64_t step = -2047; step <= 2047; ++step) {
      const std::uint64_t meant = known + static_cast<std::uint64_t>(step);
      ASSERT_EQ(
          (Immediate{0, false, static_cast<std::uint32_t>(meant & (kRound - 1))}.low_bits().near(
              known)),
          meant)
          << known << " " << step;
    }
}

/// Words as a slot or a rendezvous has them, a cache line apart.
class Words {
 public:
  static constexpr std::uint32_t kStride = 64;

  explicit Words(std::uint32_t count) : words_(std::size_t{count} * kStride / 8) {}

  ExpectedWords expected(bool in_turn, std::uint64_t last = 0) {
    return {reinterpret_cast<std::byte*>(words_.data()),
            static_cast<std::uint32_t>(words_.size() * 8 / kStride), kStride, in_turn, last};
  }
  std::uint64_t operator[](std::size_t at) const { return words_[at * kStride / 8].load(); }
  void set(std::size_t at, std::uint64_t value) { words_[at * kStride / 8].store(value); }

 private:
  std::vector<std::atomic<std::uint64_t>> words_;
};

NotificationTable::Options for_pairs(int count) {
  return {.most = Immediate::kMaxIndex + 1, .queue_pairs = count};
}

/// As a channel has it.
Arrival arrived(NotificationTable& table, Immediate put, int queue_pair) {
  return put.in_pieces ? table.piece_arrived(put.index, put.low_bits(), queue_pair)
                       : table.arrived(put.index, put.low_bits());
}

Immediate of(std::uint32_t index, std::uint64_t sequence, bool in_pieces = false) {
  return {index, in_pieces, static_cast<std::uint32_t>(sequence & (kRound - 1))};
}

TEST(ARingOfWords, IsSetRoundAndRoundAcrossTheWrap) {
  for (const std::uint32_t depth : {1U, 2U, 3U, 64U, 1000U, 4095U, 4096U}) {
    NotificationTable table(for_pairs(1));
    Words words(depth);
    const std::uint32_t signal = table.add(words.expected(true));
    for (std::uint64_t n = 1; n <= 3 * kRound + 5; ++n) {
      ASSERT_EQ(arrived(table, of(signal, n), 0), Arrival::set) << depth << " " << n;
      ASSERT_EQ(words[(n - 1) % depth], n);
    }
    for (std::uint32_t i = 0; i < depth; ++i)
      ASSERT_GT(words[i] + depth, 3 * kRound + 5) << "each holds its last round";
  }
}

TEST(ARingOfWords, GoesOnAfterWhatASlotHadBefore) {
  NotificationTable table(for_pairs(1));
  Words words(3);
  const std::uint64_t last = 2 * kRound - 1;
  const std::uint32_t signal = table.add(words.expected(true, last));
  EXPECT_EQ(arrived(table, of(signal, last + 1), 0), Arrival::set);
  EXPECT_EQ(words[last % 3], last + 1);
  EXPECT_EQ(words[(last + 1) % 3], 0U);
}

TEST(ARingOfWords, RefusesWhatIsOutOfTurn) {
  NotificationTable table(for_pairs(1));
  Words words(4);
  const std::uint32_t signal = table.add(words.expected(true));
  EXPECT_EQ(arrived(table, of(signal, 2), 0), Arrival::out_of_turn) << "the first is missing";
  EXPECT_EQ(arrived(table, of(signal, 1), 0), Arrival::set);
  EXPECT_EQ(arrived(table, of(signal, 1), 0), Arrival::out_of_turn) << "a second time";
  EXPECT_EQ(arrived(table, of(signal, 3), 0), Arrival::out_of_turn);
  EXPECT_EQ(arrived(table, of(signal, 0), 0), Arrival::out_of_turn);
  EXPECT_EQ(words[0], 1U);
  EXPECT_EQ(words[1] + words[2] + words[3], 0U);
}

TEST(WordsForThemselves, AreSetInAnyOrder) {
  NotificationTable table(for_pairs(1));
  Words words(8);
  const std::uint32_t first = table.add(words.expected(false));
  for (const std::uint32_t i : {5U, 0U, 7U, 2U}) {
    EXPECT_EQ(arrived(table, of(first + i, 10 + i), 0), Arrival::set);
    EXPECT_EQ(words[i], 10 + i);
  }
  EXPECT_EQ(words[1] + words[3] + words[4] + words[6], 0U);
}

TEST(WordsForThemselves, ForgetWhatComesTooLate) {
  NotificationTable table(for_pairs(1));
  Words words(1);
  const std::uint32_t signal = table.add(words.expected(false));
  // The owner of the words says how far the words have come, which may be far ahead of the
  // arrivals.
  words.set(0, 3 * kRound);
  EXPECT_EQ(arrived(table, of(signal, 3 * kRound - 1), 0), Arrival::set);
  EXPECT_EQ(words[0], 3 * kRound) << "nobody asks for it any more";
  EXPECT_EQ(arrived(table, of(signal, 3 * kRound + 1), 0), Arrival::set);
  EXPECT_EQ(words[0], 3 * kRound + 1);
}

TEST(WordsForThemselves, MaySkipNumbers) {
  NotificationTable table(for_pairs(1));
  Words words(1);
  const std::uint32_t signal = table.add(words.expected(false));
  std::uint64_t value = 0;
  for (int i = 0; i < 50; ++i) {
    value += 2000;
    ASSERT_EQ(arrived(table, of(signal, value), 0), Arrival::set);
    ASSERT_EQ(words[0], value);
  }
}

TEST(AnIndex, OfNothingIsUnknown) {
  NotificationTable table(for_pairs(1));
  EXPECT_EQ(arrived(table, of(0, 1), 0), Arrival::unknown);
  Words words(2);
  const std::uint32_t signal = table.add(words.expected(false));
  EXPECT_EQ(arrived(table, of(signal + 2, 1), 0), Arrival::unknown);
  EXPECT_EQ(arrived(table, Immediate::of(Immediate::kFence), 0), Arrival::unknown);
  table.remove(signal);
  EXPECT_EQ(arrived(table, of(signal, 1), 0), Arrival::unknown);
  EXPECT_EQ(arrived(table, of(signal + 1, 1), 0), Arrival::unknown);
  EXPECT_EQ(words[0] + words[1], 0U);
}

TEST(AnIndex, IsUsedAgainWithNothingOfItsPast) {
  NotificationTable table(for_pairs(2));
  Words old(4);
  const std::uint32_t signal = table.add(old.expected(true));
  for (std::uint64_t n = 1; n <= 9; ++n) arrived(table, of(signal, n, true), 0);
  table.remove(signal);
  Words words(2);
  ASSERT_EQ(table.add(words.expected(true)), signal);
  EXPECT_EQ(arrived(table, of(signal, 1, true), 1), Arrival::partly)
      << "what the first queue pair brought was of the old words";
  EXPECT_EQ(words[0], 0U);
  EXPECT_EQ(arrived(table, of(signal, 1, true), 0), Arrival::set);
  EXPECT_EQ(words[0], 1U);
  EXPECT_EQ(old[0], 0U);
}

TEST(AnIndex, OfARunIsTakenFromARunThatWasFreed) {
  NotificationTable table(for_pairs(1));
  Words ten(10);
  Words four(4);
  Words six(6);
  const std::uint32_t a = table.add(ten.expected(false));
  const std::uint32_t end = table.add(four.expected(false));
  EXPECT_EQ(end, a + 10);
  table.remove(a);
  EXPECT_EQ(table.add(four.expected(false)), a);
  EXPECT_EQ(table.add(six.expected(false)), a + 4);
  EXPECT_EQ(arrived(table, of(a + 4 + 5, 1), 0), Arrival::set);
  EXPECT_EQ(six[5], 1U);
}

TEST(AnIndex, IsRefusedWhenNoneIsLeftAndTheTableStaysUsable) {
  NotificationTable table(for_pairs(1));
  std::atomic<std::uint64_t> word{0};
  // Many small words that share one place: only their indexes count here.
  const auto words = [&](std::uint32_t count) {
    return ExpectedWords{reinterpret_cast<std::byte*>(&word), count, 0, false, 0};
  };
  const std::uint32_t all = Immediate::kMaxIndex + 1;
  const std::uint32_t first = table.add(words(all - 1));
  EXPECT_EQ(table.add(words(1)), Immediate::kMaxIndex);
  try {
    table.add(words(1));
    ADD_FAILURE() << "one more than an immediate can name";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted);
    EXPECT_NE(error.detail().hint, "");
  }
  EXPECT_EQ(arrived(table, of(Immediate::kMaxIndex, 1), 0), Arrival::set);
  EXPECT_EQ(word.load(), 1U);
  table.remove(first);
  EXPECT_EQ(table.add(words(1)), first);
}

/// Delivers puts 1 to `puts` over `pairs` queue pairs, in order within each, in any order together;
/// checks that every put completes exactly when its last piece has arrived.
void bring_in_pieces(int pairs, std::uint64_t puts, bool in_turn, std::mt19937_64& random) {
  NotificationTable table(for_pairs(pairs));
  const std::uint32_t depth = in_turn ? 5 : 1;
  Words words(depth);
  const std::uint64_t before = kRound - puts / 2;  // so that the numbers wrap on the way
  const std::uint32_t signal = table.add(words.expected(in_turn, before));
  if (!in_turn) words.set(0, before);
  std::vector<std::uint64_t> brought(static_cast<std::size_t>(pairs), before);
  std::uint64_t shown = before;
  while (shown < before + puts) {
    const std::size_t pair = random() % brought.size();
    // No further ahead than the writer's credits let it.
    if (brought[pair] == before + puts || brought[pair] >= shown + depth) continue;
    ++brought[pair];
    const std::uint64_t whole = *std::min_element(brought.begin(), brought.end());
    ASSERT_EQ(arrived(table, of(signal, brought[pair], true), static_cast<int>(pair)),
              whole > shown ? Arrival::set : Arrival::partly);
    shown = whole;
    if (shown > before) {
      ASSERT_EQ(words[(shown - 1) % depth], shown);
    }
    if (depth > 1) {
      ASSERT_NE(words[shown % depth], shown + 1) << "shown too early";
    }
  }
}

/// As a channel with one queue pair has it: the holder of the queue's lock sets the words.
NotificationTable::Options for_one_at_a_time() {
  return {.most = Immediate::kMaxIndex + 1, .one_at_a_time = true};
}

TEST(WordsThatOneThreadSets, KeepTheirTurnsWhileOthersComeAndGo) {
  NotificationTable table(for_one_at_a_time());
  Words words(5);
  const std::uint32_t signal = table.add(words.expected(true));
  std::atomic<bool> over{false};
  std::thread sets([&] {
    for (std::uint64_t n = 1; n <= 20'000 || !over.load(); ++n)
      if (arrived(table, of(signal, n), 0) != Arrival::set) {
        ADD_FAILURE() << n;
        return;
      }
  });
  Words others(16);
  std::vector<std::uint32_t> added;
  for (int round = 0; round < 300; ++round) {
    added.push_back(table.add(others.expected(false)));  // the table grows and moves
    if (round % 3 == 0) {
      table.remove(added.front());
      added.erase(added.begin());
    }
  }
  over.store(true);
  sets.join();
}

TEST(WordsThatOneThreadSets, AreNotTouchedOnceTheyWereRemoved) {
  NotificationTable table(for_one_at_a_time());
  std::atomic<std::uint32_t> index{~0U};
  std::atomic<bool> over{false};
  std::thread sets([&] {
    while (!over.load()) {
      const std::uint32_t signal = index.load();
      for (std::uint64_t n = 1; n <= 8; ++n) (void)arrived(table, of(signal, n), 0);
    }
  });
  for (int round = 0; round < 2000; ++round) {
    auto words = std::make_unique<Words>(4);
    const std::uint32_t signal = table.add(words->expected(true));
    index.store(signal);
    if (round % 4 == 0) std::this_thread::yield();
    table.remove(signal);
    const std::uint64_t sum = (*words)[0] + (*words)[1] + (*words)[2] + (*words)[3];
    std::this_thread::yield();
    EXPECT_EQ((*words)[0] + (*words)[1] + (*words)[2] + (*words)[3], sum) << round;
    // The next ones may get the same memory.
  }
  over.store(true);
  sets.join();
}

TEST(APutInPieces, ShowsWithItsLastPieceInWhateverOrderTheyCome) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int pairs = 1; pairs <= NotificationTable::kMaxQueuePairs; ++pairs)
    for (const bool in_turn : {false, true})
      for (int round = 0; round < 20; ++round) {
        bring_in_pieces(pairs, 40, in_turn, random);
        if (HasFatalFailure()) return;
      }
}

TEST(APutInPieces, ShowsInEveryOrderOfTwoToFiveQueuePairs) {
  for (int pairs = 2; pairs <= 5; ++pairs) {
    std::vector<int> order(static_cast<std::size_t>(pairs));
    std::iota(order.begin(), order.end(), 0);
    do {
      NotificationTable table(for_pairs(pairs));
      Words words(1);
      const std::uint32_t signal = table.add(words.expected(true));
      for (const int pair : order) {
        const bool last = pair == order.back();
        ASSERT_EQ(words[0], 0U);
        ASSERT_EQ(arrived(table, of(signal, 1, true), pair), last ? Arrival::set : Arrival::partly);
      }
      ASSERT_EQ(words[0], 1U);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(APutInPieces, OfWhichOneComesTwiceStaysInPieces) {
  NotificationTable table(for_pairs(3));
  Words words(1);
  const std::uint32_t signal = table.add(words.expected(true));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(arrived(table, of(signal, 1, true), 1), Arrival::partly) << "two are missing";
  EXPECT_EQ(words[0], 0U);
}

TEST(APutInPieces, FollowsWholeOnesIntoTheSameWord) {
  NotificationTable table(for_pairs(2));
  Words words(1);
  const std::uint32_t signal = table.add(words.expected(false));
  for (std::uint64_t n = 1; n < 3 * kRound; ++n)
    ASSERT_EQ(arrived(table, of(signal, n), 0), Arrival::set);
  EXPECT_EQ(arrived(table, of(signal, 3 * kRound, true), 1), Arrival::partly);
  EXPECT_EQ(arrived(table, of(signal, 3 * kRound, true), 0), Arrival::set);
  EXPECT_EQ(words[0], 3 * kRound);
}

}  // namespace
}  // namespace weft::p2p::verbs
