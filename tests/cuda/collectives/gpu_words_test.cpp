// Words of members of a group between hosts about calls that GPUs may carry out.
#include "runtime/collective/gpu_words.hpp"

#include <gtest/gtest.h>

namespace weft::tests {
namespace {

using detail::GpuWord;
using detail::GpuWords;

constexpr std::uint32_t kMark = 77;

TEST(GpuWordsOfMembers, AreKnownByMemberAndCall) {
  GpuWords words(3);
  EXPECT_EQ(words.said(1, 1, kMark), GpuWord::none);
  EXPECT_FALSE(words.hear(1, 1, kMark, GpuWord::offers));
  EXPECT_EQ(words.said(1, 1, kMark), GpuWord::offers);
  EXPECT_EQ(words.said(2, 1, kMark), GpuWord::none);
  EXPECT_EQ(words.said(1, 2, kMark), GpuWord::none);
  EXPECT_FALSE(words.hear(1, 1, kMark, GpuWord::yes));
  EXPECT_EQ(words.said(1, 1, kMark), GpuWord::yes);
}

TEST(GpuWordsOfMembers, StayOnceTheyAreFinal) {
  GpuWords words(2);
  (void)words.hear(1, 1, kMark, GpuWord::yes);
  (void)words.hear(1, 1, kMark, GpuWord::later);
  EXPECT_EQ(words.said(1, 1, kMark), GpuWord::yes) << "a closed group's answer comes later";
}

TEST(GpuWordsOfMembers, AboutAnotherCallOfThatNumberRefuseThisOne) {
  GpuWords words(2);
  (void)words.hear(1, 1, kMark + 1, GpuWord::yes);
  EXPECT_EQ(words.said(1, 1, kMark), GpuWord::later);
  (void)words.hear(1, 2, kMark + 1, GpuWord::no);
  EXPECT_EQ(words.said(1, 2, kMark), GpuWord::no);
}

TEST(GpuWordsOfMembers, AreKeptForTheLastSixteenCalls) {
  GpuWords words(2);
  for (std::uint64_t number = 1; number <= 17; ++number)
    (void)words.hear(1, number, kMark, GpuWord::yes);
  EXPECT_EQ(words.said(1, 1, kMark), GpuWord::none);
  for (std::uint64_t number = 2; number <= 17; ++number)
    EXPECT_EQ(words.said(1, number, kMark), GpuWord::yes) << number;
}

/// Each offer is answered once: when it comes, or when this rank makes the call.
TEST(GpuWordsOfMembers, ThatOfferAreToldIfThisRankDoesNot) {
  GpuWords words(3);
  EXPECT_FALSE(words.hear(1, 1, kMark, GpuWord::offers)) << "this rank has not made the call";
  EXPECT_EQ(words.begin(1, false), std::vector<std::size_t>{1});
  EXPECT_TRUE(words.hear(2, 1, kMark, GpuWord::yes)) << "it has, by host memory";
  EXPECT_FALSE(words.hear(2, 1, kMark, GpuWord::later)) << "which needs no answer";
  EXPECT_FALSE(words.hear(1, 2, kMark, GpuWord::offers));
  EXPECT_EQ(words.begin(2, true), std::vector<std::size_t>{});
  EXPECT_FALSE(words.hear(2, 2, kMark, GpuWord::offers)) << "this rank offers it too";
}

TEST(GpuWordsOfMembers, ThatSayNoSaySoOfAllCalls) {
  GpuWords words(3);
  (void)words.hear(2, 5, kMark, GpuWord::later);
  EXPECT_FALSE(words.has_no());
  (void)words.hear(1, 5, kMark, GpuWord::no);
  EXPECT_TRUE(words.has_no());
  for (std::uint64_t number = 6; number < 40; ++number)
    (void)words.hear(1, number, kMark, GpuWord::offers);
  EXPECT_TRUE(words.has_no()) << "however long ago";
}

}  // namespace
}  // namespace weft::tests
