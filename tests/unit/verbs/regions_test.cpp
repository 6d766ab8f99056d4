#include "p2p/transport/verbs/regions.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/verbs/device_rig.hpp"

namespace weft::p2p::verbs {
namespace {

using fake::FakeNetwork;
using fake::NicSpec;

constexpr std::size_t kChunk = 2U << 20U;

/// A rank's memory and a device that has registered it.
struct Rank {
  explicit Rank(NicSpec nic = {}, AdoptedRegions::Limits limits = {})
      : rig(network.device(0, std::move(nic))), regions(rig.device(), memory, limits) {}

  static std::shared_ptr<Arena> make(ArenaSort sort, const std::shared_ptr<SegmentMapper>& mapper) {
    return std::make_shared<Arena>(
        sort, ArenaLimits{.chunk_bytes = kChunk, .huge_pages = false, .exported = true}, mapper);
  }
  std::uint64_t calls() const {
    return network.counts(0).calls[static_cast<std::size_t>(fake::VerbsCall::reg_mr)];
  }
  std::shared_ptr<Storage> adopt(std::byte* data, std::size_t bytes) {
    return memory.adopted->adopt(std::shared_ptr<void>(data, [](void*) {}), bytes);
  }

  FakeNetwork network;
  DeviceRig rig;
  std::shared_ptr<SegmentMapper> mapper = std::make_shared<SegmentMapper>();
  Regions::Memory memory = [this] {
    Regions::Memory made{make(ArenaSort::control, mapper), make(ArenaSort::data, mapper),
                         make(ArenaSort::published, mapper), make(ArenaSort::staging, mapper),
                         nullptr};
    made.adopted = std::make_shared<AdoptedMemory>(made.control);
    return made;
  }();
  Regions regions;
};

std::uint32_t adopted(std::uint32_t number) {
  return (static_cast<std::uint32_t>(ArenaSort::adopted) << 24U) | number;
}

TEST(Regions, RegisterAChunkOnceForAllThatLiesInIt) {
  Rank rank;
  const Block a = rank.memory.data->allocate(1000);
  const Block b = rank.memory.data->allocate(1000);
  EXPECT_EQ(rank.calls(), 0U) << "nothing before it is needed";
  const RegisteredChunk chunk = rank.regions.of_chunk(a.chunk).value();
  EXPECT_EQ(chunk.data, rank.memory.data->chunk_data(a.chunk));
  EXPECT_EQ(chunk.bytes, kChunk);
  EXPECT_EQ(rank.regions.local_key(a.data, 1000).value(), chunk.local_key);
  EXPECT_EQ(rank.regions.local_key(b.data, 1000).value(), chunk.local_key);
  EXPECT_EQ(rank.regions.of_chunk(b.chunk).value().remote_key, chunk.remote_key);
  EXPECT_EQ(rank.calls(), 1U);
  EXPECT_EQ(rank.regions.registrations(), 1U);
  EXPECT_EQ(rank.regions.registered_bytes(), kChunk);
}

TEST(Regions, FindTheChunkOfEveryAddress) {
  Rank rank;
  std::vector<Block> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(rank.memory.data->allocate(kChunk / 2));
    blocks.push_back(rank.memory.staging->allocate(kChunk / 2));
  }
  for (int round = 0; round < 2; ++round)
    for (const Block& block : blocks) {
      const auto key = rank.regions.local_key(block.data, block.bytes);
      ASSERT_TRUE(key.ok());
      if (sort_of_chunk(block.chunk) == ArenaSort::data) {
        EXPECT_EQ(*key, rank.regions.of_chunk(block.chunk).value().local_key);
      }
    }
  EXPECT_EQ(rank.calls(), 40U) << "two blocks share a chunk";
}

TEST(Regions, AreRegisteredOnceByThreadsThatNeedThemAtOnce) {
  Rank rank;
  std::vector<Block> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(rank.memory.data->allocate(kChunk));
  std::atomic<int> ready{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < 4) std::this_thread::yield();
      for (std::size_t i = 0; i < 2000; ++i) {
        const Block& block = blocks[(i + static_cast<std::size_t>(t)) % blocks.size()];
        const auto key = rank.regions.local_key(block.data, block.bytes);
        if (!key || *key != rank.regions.of_chunk(block.chunk).value().local_key) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(rank.calls(), 8U);
}

TEST(Regions, ShowPeersNothingThatIsNotTheirs) {
  Rank rank;
  const Block staging = rank.memory.staging->allocate(64);
  EXPECT_EQ(rank.regions.of_chunk(staging.chunk).code(), Code::bad_argument);
  EXPECT_EQ(rank.regions.of_chunk(staging.chunk + 7).code(), Code::bad_argument);
  EXPECT_EQ(rank.regions.of_chunk(0x77000000).code(), Code::bad_argument);
  EXPECT_EQ(rank.regions.of_chunk(adopted(3)).code(), Code::bad_argument);
  std::byte outside{};
  EXPECT_EQ(rank.regions.local_key(&outside, 1).code(), Code::bad_argument);
  EXPECT_EQ(rank.calls(), 0U);
}

TEST(Regions, AllowEachSortOfMemoryWhatItNeedsAndNoMore) {
  Rank rank;
  constexpr int kBoth = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  std::vector<std::byte> own(4096);
  const auto storage = rank.adopt(own.data(), own.size());
  for (const auto* arena :
       {&rank.memory.control, &rank.memory.data, &rank.memory.published, &rank.memory.staging}) {
    const Block block = (*arena)->allocate(64);
    ASSERT_TRUE(rank.regions.local_key(block.data, 64).ok());
  }
  ASSERT_TRUE(rank.regions.of_chunk(adopted(0)).ok());
  EXPECT_EQ(rank.rig.verbs->accesses(),
            (std::vector<int>{IBV_ACCESS_LOCAL_WRITE | kBoth, IBV_ACCESS_LOCAL_WRITE | kBoth,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                              IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE | kBoth}))
      << "control, data, published, staging, adopted; none with relaxed ordering";
}

TEST(AdoptedRegions, AreForgottenWhenTheirMemoryIsGivenBack) {
  Rank rank;
  std::vector<std::byte> own(4096);
  auto storage = rank.adopt(own.data(), own.size());
  const RegisteredChunk first = rank.regions.of_chunk(adopted(0)).value();
  EXPECT_EQ(first.data, own.data());
  EXPECT_EQ(first.bytes, own.size());
  EXPECT_EQ(rank.regions.of_chunk(adopted(0)).value().remote_key, first.remote_key);
  EXPECT_EQ(rank.calls(), 1U);
  storage.reset();
  EXPECT_EQ(rank.regions.registered_bytes(), 0U);
  EXPECT_EQ(rank.regions.of_chunk(adopted(0)).code(), Code::bad_argument);

  // The same address again gets another number and another key.
  storage = rank.adopt(own.data(), own.size());
  EXPECT_EQ(rank.regions.of_chunk(adopted(0)).code(), Code::bad_argument);
  EXPECT_NE(rank.regions.of_chunk(adopted(1)).value().remote_key, first.remote_key);
  EXPECT_EQ(rank.calls(), 2U);
}

TEST(AdoptedRegions, StayRegisteredUntilTheOperationThatUsesThemIsOver) {
  Rank rank;
  std::vector<std::byte> own(4096);
  auto storage = rank.adopt(own.data(), own.size());
  {
    const Regions::Lease lease = rank.regions.lend(adopted(0)).value();
    EXPECT_EQ(lease.chunk().data, own.data());
    storage.reset();
    EXPECT_EQ(rank.regions.registered_bytes(), own.size());
  }
  EXPECT_EQ(rank.regions.registered_bytes(), 0U);
}

TEST(AdoptedRegions, GiveWayToOthersTheLongestUnusedFirst) {
  Rank rank({}, {.regions = 2});
  std::vector<std::byte> own(4U * 4096);
  std::vector<std::shared_ptr<Storage>> storages;
  for (std::size_t i = 0; i < 4; ++i) storages.push_back(rank.adopt(own.data() + i * 4096, 4096));
  const auto use = [&](std::uint32_t i) {
    const std::uint64_t before = rank.calls();
    EXPECT_TRUE(rank.regions.lend(adopted(i)).ok());
    return rank.calls() > before ? "registered" : "kept";
  };
  EXPECT_STREQ(use(0), "registered");
  EXPECT_STREQ(use(1), "registered");
  EXPECT_STREQ(use(0), "kept");
  EXPECT_STREQ(use(2), "registered");
  EXPECT_STREQ(use(0), "kept") << "1 was unused for longer";
  EXPECT_STREQ(use(1), "registered");
  EXPECT_EQ(rank.regions.registered_bytes(), 2U * 4096);
}

TEST(AdoptedRegions, DoNotGiveWayWhileInUseOrKnownToPeers) {
  Rank rank({}, {.regions = 2});
  std::vector<std::byte> own(4U * 4096);
  std::vector<std::shared_ptr<Storage>> storages;
  for (std::size_t i = 0; i < 4; ++i) storages.push_back(rank.adopt(own.data() + i * 4096, 4096));
  const RegisteredChunk told = rank.regions.of_chunk(adopted(0)).value();
  const Regions::Lease in_use = rank.regions.lend(adopted(1)).value();
  EXPECT_TRUE(rank.regions.lend(adopted(2)).ok()) << "the limit is for those that can go";
  EXPECT_TRUE(rank.regions.lend(adopted(3)).ok());
  EXPECT_EQ(rank.regions.registered_bytes(), 3U * 4096) << "2 went for 3";
  EXPECT_EQ(rank.regions.of_chunk(adopted(0)).value().remote_key, told.remote_key);
  EXPECT_EQ(rank.regions.lend(adopted(1)).value().chunk().local_key, in_use.chunk().local_key);
  EXPECT_EQ(rank.calls(), 4U);
}

TEST(AdoptedRegions, KeepWithinTheBytesAllowed) {
  Rank rank({}, {.bytes = 8192});
  std::vector<std::byte> own(3U * 4096);
  std::vector<std::shared_ptr<Storage>> storages;
  for (std::uint32_t i = 0; i < 3; ++i) {
    storages.push_back(rank.adopt(own.data() + i * 4096, 4096));
    EXPECT_TRUE(rank.regions.lend(adopted(i)).ok());
  }
  EXPECT_EQ(rank.regions.registered_bytes(), 8192U);
}

TEST(AdoptedRegions, GiveWayWhenTheDeviceHasNoRoom) {
  Rank rank(NicSpec{.max_registered = 6000});
  std::vector<std::byte> own(2U * 4096);
  const auto first = rank.adopt(own.data(), 4096);
  const auto second = rank.adopt(own.data() + 4096, 4096);
  EXPECT_TRUE(rank.regions.lend(adopted(0)).ok());
  const Regions::Lease lease = rank.regions.lend(adopted(1)).value();
  EXPECT_EQ(rank.regions.registered_bytes(), 4096U);
  const auto none = rank.regions.lend(adopted(0));
  EXPECT_EQ(none.code(), Code::exhausted) << "the other is in use";
}

}  // namespace
}  // namespace weft::p2p::verbs
