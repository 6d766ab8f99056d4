#include "p2p/transport/verbs/device/budget.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weft::p2p::verbs {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

DeviceLimits ample() {
  DeviceLimits limits;
  limits.max_queue_pairs = 1U << 18U;
  limits.max_completions = 1U << 22U;
  limits.max_regions = 1U << 24U;
  limits.max_region_bytes = ~std::uint64_t{0};
  return limits;
}

LockedMemory limited_to(std::uint64_t bytes) {
  LockedMemory memory;
  memory.limit = bytes;
  return memory;
}

RegistrationNeed arenas(std::uint64_t bytes) {
  RegistrationNeed need;
  need.bytes = bytes;
  need.largest_region = bytes;
  need.regions = 2;
  return need;
}

TEST(LockedMemory, IsReadFromTheProcessStatus) {
  const std::string status =
      "Name:\ttrainer\nVmLck:\t     8 kB\nVmPin:\t  4096 kB\nCapEff:\t0000000000004000\n";
  const LockedMemory memory = parse_locked_memory(status, 8 * kMiB, true);
  EXPECT_EQ(memory.locked, 8U * 1024);
  EXPECT_EQ(memory.pinned, 4 * kMiB);
  EXPECT_TRUE(memory.exempt) << "bit 14 is CAP_IPC_LOCK";
  EXPECT_EQ(memory.left(), LockedMemory::kUnlimited);
}

TEST(LockedMemory, IsNotExemptByACapabilityOfAnInnerUserNamespace) {
  const std::string status = "VmPin:\t  4096 kB\nCapEff:\t000001ffffffffff\n";
  EXPECT_TRUE(parse_locked_memory(status, 8 * kMiB, true).exempt);
  const LockedMemory memory = parse_locked_memory(status, 8 * kMiB, false);
  EXPECT_FALSE(memory.exempt);
  EXPECT_EQ(memory.left(), 4 * kMiB);
}

TEST(LockedMemory, HasNothingLeftWhereMoreIsPinnedThanAllowed) {
  LockedMemory memory = limited_to(kMiB);
  memory.pinned = 2 * kMiB;
  EXPECT_EQ(memory.left(), 0U);
}

TEST(LockedMemory, OfThisProcessHoldsTogether) {
  const LockedMemory memory = locked_memory();
  EXPECT_GE(memory.limit, memory.exempt ? 0 : memory.left());
  EXPECT_NE(memory.text().find("RLIMIT_MEMLOCK"), std::string::npos);
}

TEST(Budget, IsMetWhereItJustFits) {
  EXPECT_FALSE(shortfall(arenas(18 * kMiB), ample(), limited_to(18 * kMiB)).has_value());
  EXPECT_TRUE(shortfall(arenas(18 * kMiB + 1), ample(), limited_to(18 * kMiB)).has_value());
}

TEST(Budget, SaysWhatIsNeededWhatIsAllowedAndHowToRaiseIt) {
  LockedMemory memory = limited_to(65536);
  memory.pinned = 4096;
  const auto lack = shortfall(arenas(18 * kMiB), ample(), memory);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->message,
            "18874368 bytes are to be registered (18874368 of arenas, 0 of queues): RLIMIT_MEMLOCK "
            "is 65536 bytes, 4096 bytes are pinned and 0 locked");
  for (const char* const fix : {"ulimit -l unlimited", "LimitMEMLOCK=infinity", "memlock=-1"})
    EXPECT_NE(lack->hint.find(fix), std::string::npos) << fix;
}

TEST(Budget, IsNotBoundByALimitThatDoesNotBind) {
  LockedMemory memory = limited_to(65536);
  memory.exempt = true;
  EXPECT_FALSE(shortfall(arenas(18 * kMiB), ample(), memory).has_value());
  EXPECT_FALSE(shortfall(arenas(18 * kMiB), ample(), LockedMemory{}).has_value());
}

TEST(Budget, CountsTheMemoryOfQueues) {
  const RegistrationNeed need = need_of_peers(100, 2, 1024);
  EXPECT_EQ(need.queue_pairs, 200U);
  EXPECT_EQ(need.queue_bytes, 200U * 1024 * 144);
  EXPECT_TRUE(shortfall(need, ample(), limited_to(16 * kMiB)).has_value());
  EXPECT_FALSE(shortfall(need, ample(), limited_to(32 * kMiB)).has_value());
}

TEST(Budget, NamesTheDeviceLimitThatIsTooSmall) {
  const auto message = [](const RegistrationNeed& need, const DeviceLimits& limits) {
    const auto lack = shortfall(need, limits, LockedMemory{});
    return lack ? lack->message : "(met)";
  };
  DeviceLimits limits = ample();
  limits.max_regions = 1;
  EXPECT_EQ(message(arenas(1), limits), "2 regions are to be registered, and the device allows 1");
  limits = ample();
  limits.max_region_bytes = kMiB;
  EXPECT_EQ(message(arenas(2 * kMiB), limits),
            "a region of 2097152 bytes is to be registered, and the device allows 1048576");
  limits = ample();
  limits.max_queue_pairs = 199;
  EXPECT_EQ(message(need_of_peers(100, 2, 16), limits),
            "200 queue pairs are needed, and the device allows 199");
  limits = ample();
  limits.max_completions = 1000;
  RegistrationNeed need;
  need.completions = 1001;
  EXPECT_EQ(message(need, limits),
            "a completion queue of 1001 entries is needed, and the device allows 1000");
}

}  // namespace
}  // namespace weft::p2p::verbs
