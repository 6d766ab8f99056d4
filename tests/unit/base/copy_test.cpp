#include "base/kernels/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weft::kernels {
namespace {

using Copy = void (*)(void*, const void*, std::size_t) noexcept;

class CopyTest : public testing::TestWithParam<Copy> {};

INSTANTIATE_TEST_SUITE_P(Kernels, CopyTest, testing::Values(copy_cached, copy_streamed),
                         [](const auto& kernel) {
                           return std::string(kernel.param == copy_cached ? "cached" : "streamed");
                         });

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> bytes(count);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

/// Copies `bytes` from one offset to another; expects them there, and no other byte changed.
void expect_exact(Copy copy, const std::vector<std::uint8_t>& source, std::size_t from,
                  std::size_t to, std::size_t bytes) {
  constexpr std::uint8_t kUntouched = 0xa5;
  constexpr std::size_t kMargin = 128;
  std::vector<std::uint8_t> target(to + bytes + kMargin, kUntouched);
  std::vector<std::uint8_t> expected = target;
  if (bytes != 0) std::memcpy(expected.data() + to, source.data() + from, bytes);
  copy(target.data() + to, source.data() + from, bytes);
  // Not EXPECT_EQ, which would print all bytes.
  EXPECT_TRUE(target == expected) << bytes << " bytes from offset " << from << " to " << to;
}

TEST_P(CopyTest, CopiesExactlyWhatItIsToldForEverySmallSizeAndAlignment) {
  const auto source = random_bytes(1024, 1);
  for (std::size_t bytes = 0; bytes <= 700; ++bytes)
    for (const std::size_t to : {0U, 1U, 15U, 31U, 32U, 63U, 64U})
      expect_exact(GetParam(), source, bytes * 7 % 64, to, bytes);
}

TEST_P(CopyTest, CopiesExactlyWhatItIsToldForAnySizeAndAlignment) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto source = random_bytes(300'000, seed);
  for (int i = 0; i < 200; ++i)
    expect_exact(GetParam(), source, random() % 200, random() % 200, random() % 299'000);
}

TEST_P(CopyTest, IsPublishedByAReleaseStore) {
  constexpr std::uint64_t kRounds = 300;
  std::vector<std::uint64_t> target(1 << 14);
  std::atomic<std::uint64_t> published{0};
  std::atomic<std::uint64_t> consumed{0};
  std::uint64_t torn = 0;
  std::thread reader([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      while (published.load(std::memory_order_acquire) != round) std::this_thread::yield();
      torn += static_cast<std::uint64_t>(
          std::count_if(target.begin(), target.end(), [=](auto word) { return word != round; }));
      consumed.store(round, std::memory_order_release);
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const std::vector<std::uint64_t> source(target.size(), round);
    GetParam()(target.data(), source.data(), source.size() * sizeof(std::uint64_t));
    published.store(round, std::memory_order_release);
    while (consumed.load(std::memory_order_acquire) != round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(torn, 0U);
}

TEST(Copy, CopiesOnBothSidesOfTheStreamingSize) {
  const auto source = random_bytes(4096, 2);
  for (const std::size_t stream_bytes : {1U, 4096U, 8192U}) {
    std::vector<std::uint8_t> target(source.size());
    copy(target.data(), source.data(), source.size(), stream_bytes);
    EXPECT_TRUE(target == source) << stream_bytes;
  }
}

TEST(Copy, StreamsFromASizeThatACacheCanHave) {
  EXPECT_GE(default_stream_bytes(), std::size_t{4} << 10);
  EXPECT_LE(default_stream_bytes(), std::size_t{1} << 30);
}

TEST(Copy, NamesTheVectorsInUse) {
  EXPECT_NE(std::string_view(vector_target()), "");
  EXPECT_NE(std::string_view(vector_target()), "Unknown");
}

}  // namespace
}  // namespace weft::kernels
