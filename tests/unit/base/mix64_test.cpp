#include "base/mix64.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace weft {
namespace {

constexpr std::uint64_t fnv1a_of(std::string_view text) {
  std::uint64_t hash = kFnv1a;
  for (const char letter : text) hash = fnv1a(hash, static_cast<unsigned char>(letter));
  return hash;
}

// Seeds, rows' places and groups' numbers depend on these values.

TEST(Mix64, GivesTheFirstNumbersOfSplitmix64FromSeed0) {
  EXPECT_EQ(mix64(kGolden64), 0xe220a8397b1dcdafU);
  EXPECT_EQ(mix64(2 * kGolden64), 0x6e789e6aa1b965f4U);
  EXPECT_EQ(mix64(3 * kGolden64), 0x06c45d188009454fU);
}

TEST(Mix64, GivesThePublishedValuesOfFnv1a) {
  EXPECT_EQ(fnv1a_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a_of("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a_of("foobar"), 0x85944171f73967e8U);
}

}  // namespace
}  // namespace weft
