// How streams of the stand-in work off their operations.
#include <set>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

/// Streams that move only when they must.
class Lazy : public OnDriver {
 protected:
  stand_in::Options options() const override { return lazy(1); }
  static stand_in::Options lazy(std::uint64_t seed) {
    return {.pace = stand_in::Pace::lazy, .seed = seed, .idle = std::chrono::milliseconds(0)};
  }
  /// The order in which host functions of three streams run.
  std::string order(std::uint64_t seed) {
    Context popped = nullptr;
    EXPECT_OK(driver().pop_context(&popped));
    EXPECT_OK(driver().release_context(0));
    EXPECT_EQ(control()->restart(lazy(seed)), std::vector<std::string>{});
    EXPECT_OK(driver().retain_context(&popped, 0));
    EXPECT_OK(driver().push_context(popped));
    static std::string seen;
    seen.clear();
    std::vector<StreamHandle> streams{make_stream(), make_stream(), make_stream()};
    const auto add = [&](int stream, HostFunction function) {
      EXPECT_OK(driver().launch_host_function(streams[static_cast<std::size_t>(stream)], function,
                                              nullptr));
    };
    add(0, [](void*) { seen += 'a'; });
    add(0, [](void*) { seen += 'b'; });
    add(1, [](void*) { seen += 'c'; });
    add(2, [](void*) { seen += 'd'; });
    EXPECT_EQ(control()->step(100), 4);
    for (const StreamHandle stream : streams) EXPECT_OK(driver().destroy_stream(stream));
    return seen;
  }
};

TEST_F(Lazy, NothingRunsBeforeACallWaitsForIt) {
  Pinned<std::uint32_t> word(driver(), 1024);
  word[0] = 0;
  EXPECT_OK(driver().write_value32(stream(), word.at(), 1, kWriteValueDefault));
  const StreamHandle other = make_stream();
  EXPECT_OK(driver().synchronize_stream(other));
  EXPECT_EQ(word[0], 0U);
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_EQ(word[0], 1U);
  EXPECT_OK(driver().destroy_stream(other));
}

TEST_F(Lazy, AWaitRunsWhatItDependsOnAndNoMore) {
  Pinned<std::uint32_t> words(driver(), 1024);
  words[0] = words[16] = 0;
  const StreamHandle other = make_stream();
  const Event event = make_event();
  EXPECT_OK(driver().write_value32(other, words.at(), 1, kWriteValueDefault));
  EXPECT_OK(driver().record_event(event, other));
  EXPECT_OK(driver().write_value32(other, words.at() + 64, 1, kWriteValueDefault));
  EXPECT_OK(driver().wait_event(stream(), event, 0));
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_EQ(words[0], 1U);
  EXPECT_EQ(words[16], 0U);
  EXPECT_OK(driver().destroy_stream(other));
  EXPECT_OK(driver().destroy_event(event));
}

TEST_F(Lazy, AWordIsWrittenByWhicheverStreamWillDoIt) {
  const DevicePointer word = allocate(64);
  fill(word, 64, 0);
  const StreamHandle other = make_stream();
  EXPECT_OK(driver().wait_value32(stream(), word, 1, kWaitValueEqual));
  EXPECT_OK(driver().write_value32(other, word, 1, kWriteValueDefault));
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_OK(driver().destroy_stream(other));
  EXPECT_OK(driver().free(word));
}

TEST_F(Lazy, QuestionsEnoughMoveAStreamOn) {
  const Event event = make_event();
  int unready = 0;
  for (int round = 0; round < 20; ++round) {
    EXPECT_OK(driver().record_event(event, stream()));
    while (driver().query_event(event) == DriverStatus::not_ready) ASSERT_LT(++unready, 1000);
  }
  EXPECT_GT(unready, 20);
  EXPECT_OK(driver().destroy_event(event));
}

TEST_F(Lazy, TheSeedDecidesTheOrder) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string first = order(seed);
    EXPECT_EQ(order(seed), first);
    EXPECT_LT(first.find('a'), first.find('b'));
    orders.insert(first);
  }
  EXPECT_GT(orders.size(), 3U);
}

class LazyWithAnEnd : public OnDriver {
  stand_in::Options options() const override {
    return {.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(5)};
  }
};

TEST_F(LazyWithAnEnd, WhatNobodyAsksForRunsAfterAWhile) {
  Pinned<std::uint32_t> word(driver(), 1024);
  const std::atomic_ref<std::uint32_t> seen(word[0]);
  seen.store(0);
  EXPECT_OK(driver().write_value32(stream(), word.at(), 1, kWriteValueDefault));
  while (seen.load() == 0) std::this_thread::yield();
  EXPECT_OK(driver().synchronize_stream(stream()));
}

class Delayed : public OnDriver {
  stand_in::Options options() const override { return {.delay = std::chrono::milliseconds(2)}; }
};

TEST_F(Delayed, StreamsRunBesideEachOther) {
  // Two streams whose operations wait for each other in turn: neither could go on alone.
  const DevicePointer words = allocate(128);
  fill(words, 128, 0);
  const StreamHandle other = make_stream();
  for (std::uint32_t round = 1; round <= 5; ++round) {
    EXPECT_OK(driver().write_value32(stream(), words, round, kWriteValueDefault));
    EXPECT_OK(driver().wait_value32(stream(), words + 64, round, kWaitValueEqual));
    EXPECT_OK(driver().wait_value32(other, words, round, kWaitValueEqual));
    EXPECT_OK(driver().write_value32(other, words + 64, round, kWriteValueDefault));
  }
  EXPECT_OK(driver().synchronize_stream(stream()));
  EXPECT_OK(driver().destroy_stream(other));
  EXPECT_OK(driver().free(words));
}

}  // namespace
}  // namespace weft::tests
