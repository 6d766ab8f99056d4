// The source of an arena's pages, and how an arena grows.
#include "p2p/memory/arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/mapping.hpp"
#include "base/os/numa.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

constexpr int kDefault = 0;    // MPOL_DEFAULT
constexpr int kPreferred = 1;  // MPOL_PREFERRED
constexpr int kBind = 2;       // MPOL_BIND

/// The kernel's policy for the memory of a new arena.
int policy_of(ArenaSort sort, int numa, std::vector<int> allowed = {}) {
  Arena arena(sort, {.chunk_bytes = 2 << 20, .numa = numa, .allowed_numa = std::move(allowed)},
              std::make_shared<SegmentMapper>());
  const Block block = arena.allocate(64);
  int policy = -1;
  constexpr unsigned long kByAddress = 2;  // MPOL_F_ADDR
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, block.data, kByAddress), 0);
  arena.release(block);
  return policy;
}

TEST(Arena, TakesPagesOfTheNodeThatItIsGiven) {
  const auto mapping = os::Mapping::anonymous(2 << 20);
  if (!os::prefer_numa(mapping.data(), mapping.bytes(), 0))
    GTEST_SKIP() << "the kernel takes no wishes on NUMA nodes here";
  for (const ArenaSort sort : {ArenaSort::data, ArenaSort::published, ArenaSort::staging}) {
    EXPECT_EQ(policy_of(sort, 0), kPreferred);
    EXPECT_EQ(policy_of(sort, -1), kDefault);
  }
}

TEST(Arena, TakesNoPagesFromOutsideOfTheNodesThatItMayLieOn) {
  const auto mapping = os::Mapping::anonymous(2 << 20);
  if (!os::bind_numa(mapping.data(), mapping.bytes(), std::array{0}, 0))
    GTEST_SKIP() << "the kernel binds no memory here";
  for (const ArenaSort sort : {ArenaSort::data, ArenaSort::published, ArenaSort::staging}) {
    EXPECT_EQ(policy_of(sort, 0, {0}), kBind);
    EXPECT_EQ(policy_of(sort, -1, {0}), kBind);
    EXPECT_EQ(policy_of(sort, 0, {1000}), kPreferred);  // refused, as by a cpuset
  }
}

TEST(Arena, GivesOutNothingOfASealedChunk) {
  Arena arena(ArenaSort::data, {.chunk_bytes = 2 << 20}, std::make_shared<SegmentMapper>());
  const Block first = arena.allocate(4096);
  const Block kept = arena.allocate(4096);

  arena.seal(first.chunk);
  arena.seal(first.chunk);

  const ArenaReport sealed = arena.report();
  EXPECT_EQ(sealed.quarantined_bytes, sealed.reserved_bytes - 8192);
  EXPECT_EQ(sealed.largest_free_bytes, 0U);
  arena.release(first);
  EXPECT_EQ(arena.report().quarantined_bytes, sealed.quarantined_bytes + 4096);
  EXPECT_EQ(arena.report().used_bytes, 4096U);
  const Block next = arena.allocate(4096);
  EXPECT_NE(next.chunk, first.chunk);
  arena.release(next);
  arena.seal();

  EXPECT_EQ(arena.report().quarantined_bytes, arena.report().reserved_bytes - 4096);
  arena.release(kept);
}

/// Memory whose creation waits, as a GPU's may.
class WaitingSource final : public ChunkSource {
 public:
  explicit WaitingSource(std::atomic<int>& gate) : gate_(gate) {}
  std::size_t page() const noexcept override { return chunks_->page(); }
  std::optional<std::string> refusal(std::size_t bytes) const override {
    return chunks_->refusal(bytes);
  }
  ChunkMemory create(std::size_t bytes) override {
    if (gate_.load() == kClosed) {
      gate_.store(kReached);
      gate_.notify_all();
      gate_.wait(kReached);
    }
    return chunks_->create(bytes);
  }

  static constexpr int kOpen = 0;
  static constexpr int kClosed = 1;
  static constexpr int kReached = 2;

 private:
  std::atomic<int>& gate_;
  const std::unique_ptr<ChunkSource> chunks_ = lazy_chunks();
};

TEST(Arena, SealsWhileAnAllocationWaits) {
  std::atomic<int> gate{WaitingSource::kOpen};
  Arena arena(ArenaSort::data, {.chunk_bytes = 2 << 20}, std::make_shared<SegmentMapper>(),
              std::make_unique<WaitingSource>(gate));
  const Block first = arena.allocate(4096);
  gate.store(WaitingSource::kClosed);
  Block second;
  std::thread allocating([&] { second = arena.allocate(2 << 20); });
  gate.wait(WaitingSource::kClosed);

  arena.seal(first.chunk);
  arena.seal();

  gate.store(WaitingSource::kOpen);
  gate.notify_all();
  allocating.join();
  const Block third = arena.allocate(4096);
  EXPECT_NE(third.chunk, first.chunk);
  for (const Block& block : {first, second, third}) arena.release(block);
}

TEST(Arena, DoesWithoutANodeThatIsNotThere) {
  Arena arena(ArenaSort::data, {.chunk_bytes = 2 << 20, .numa = 1000},
              std::make_shared<SegmentMapper>());
  EXPECT_NE(arena.allocate(64).data, nullptr);
}

/// The chunks that hold these requests, in MiB, by their order.
std::vector<std::size_t> chunks_of(ArenaLimits limits, const std::vector<std::size_t>& requests) {
  limits.huge_pages = false;
  Arena arena(ArenaSort::data, std::move(limits), std::make_shared<SegmentMapper>());
  std::vector<std::size_t> chunks;
  for (const std::size_t bytes : requests) {
    const std::uint32_t chunk = arena.allocate(bytes).chunk;
    if ((chunk & 0xffffffU) == chunks.size()) chunks.push_back(arena.chunk_bytes(chunk) >> 20);
  }
  return chunks;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(ArenaGrowth, StartsSmallAndDoublesUpToTheStep) {
  EXPECT_EQ(chunks_of({.chunk_bytes = 8 * kMiB}, std::vector<std::size_t>(15, 2 * kMiB)),
            (std::vector<std::size_t>{2, 4, 8, 8, 8}));
  EXPECT_EQ(chunks_of({.chunk_bytes = 2 * kMiB}, {kMiB, kMiB, kMiB}),
            (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(chunks_of({.chunk_bytes = 6 * kMiB}, {kMiB, 2 * kMiB, 4 * kMiB, 4 * kMiB}),
            (std::vector<std::size_t>{2, 4, 6, 6}));
}

TEST(ArenaGrowth, SkipsStepsThatDontHoldTheRequest) {
  EXPECT_EQ(chunks_of({}, {5 * kMiB, 3 * kMiB, 64, 9 * kMiB}), (std::vector<std::size_t>{8, 16}));
}

TEST(ArenaGrowth, GivesALargeRequestAChunkOfItsOwn) {
  EXPECT_EQ(chunks_of({}, {64, 33 * kMiB, 4 * kMiB}), (std::vector<std::size_t>{2, 34, 16}));
}

TEST(ArenaGrowth, TakesTheRestOfTheLimitWithItsLastStep) {
  const ArenaLimits limits{.max_bytes = 20 * kMiB};
  EXPECT_EQ(chunks_of(limits, {64, 10 * kMiB, 2 * kMiB}), (std::vector<std::size_t>{2, 16}));
  EXPECT_EQ(chunks_of(limits, {64, 4 * kMiB, 8 * kMiB, 6 * kMiB}),
            (std::vector<std::size_t>{2, 4, 8, 6}));
}

TEST(ArenaGrowth, TellsWhatTheLimitLeaves) {
  const Arena unlimited(ArenaSort::data, {}, std::make_shared<SegmentMapper>());
  EXPECT_EQ(unlimited.left(), ~std::uint64_t{0});
  Arena arena(ArenaSort::data, {.max_bytes = 20 * kMiB}, std::make_shared<SegmentMapper>());
  EXPECT_EQ(arena.left(), 20 * kMiB);
  const Block block = arena.allocate(3 * kMiB);
  EXPECT_EQ(arena.left(), 17 * kMiB);
  arena.release(block);
  EXPECT_EQ(arena.left(), 20 * kMiB);
}

/// Chunks that no processor can touch, on "GPU 5".
class FarChunks final : public ChunkSource {
 public:
  std::size_t page() const noexcept override { return 1 << 20; }
  std::size_t granule() const noexcept override { return 256; }
  Memory memory() const noexcept override { return Memory::gpu(5); }
  std::optional<std::string> refusal(std::size_t bytes) const override {
    if (bytes > 8 << 20) return "only 8 MiB are free";
    return std::nullopt;
  }
  ChunkMemory create(std::size_t bytes) override {
    void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto owner = std::make_shared<os::Mapping>(at, bytes);
    std::byte* const data = owner->data();
    return {.data = data, .owner = std::move(owner)};
  }
};

TEST(Arena, TakesChunksFromAnySourceAndNeverTouchesThem) {
  const auto arena =
      std::make_shared<Arena>(ArenaSort::device, ArenaLimits{.chunk_bytes = 4 << 20},
                              std::make_shared<SegmentMapper>(), std::make_unique<FarChunks>());
  const Block first = arena->allocate(1);
  const Block second = arena->allocate(257);
  const Block third = arena->allocate(1);
  EXPECT_EQ(sort_of_chunk(first.chunk), ArenaSort::device);
  EXPECT_EQ(second.data - first.data, 256);
  EXPECT_EQ(third.data - second.data, 512);
  EXPECT_TRUE(arena->contains(second.data, 257));
  EXPECT_EQ(arena->report().sort, "GPU 5");
  EXPECT_EQ(arena->report().used_bytes, 1024U);
  arena->release(second);
  EXPECT_EQ(arena->allocate(300).data, second.data);
  const auto storage = make_storage(arena, 3 << 20);
  EXPECT_EQ(storage->memory(), Memory::gpu(5));
  EXPECT_EQ(Tensor(storage, 0, DType::u8, {8}).memory(), Memory::gpu(5));
  try {
    (void)arena->allocate(16 << 20);
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted);
    EXPECT_NE(error.detail().message.find("16777216 bytes asked of the GPU 5 arena"),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.detail().message.find("only 8 MiB are free"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::p2p
