// Splits a payload into work requests: every byte once, in order, within the NIC's limits.
#include "p2p/transport/verbs/work_request_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace weft::p2p::verbs {
namespace {

constexpr RemoteMemory kTarget{0x7000'0000'0000, 42};

/// One range of memory as work requests name it.
struct Stretch {
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::uint32_t key = 0;
  bool operator==(const Stretch&) const = default;
};

/// The test never reads the memory, so addresses need not be mapped.
MemoryPiece piece(std::uint64_t from, std::uint64_t bytes, std::uint32_t key = 1) {
  return {reinterpret_cast<const std::byte*>(from), bytes, key, 0};
}

struct Cut {
  std::vector<Stretch> stretches;  ///< neighbours joined
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
};

/// Splits the pieces into one chain after another, as a channel does, and checks each request.
Cut cut(const std::vector<MemoryPiece>& pieces, std::uint32_t most_pieces,
        std::uint64_t max_message) {
  const auto writes = std::make_unique<WorkRequestChain>(most_pieces, max_message);
  Cut cut;
  PayloadCursor rest{.pieces = pieces, .to = kTarget};
  while (!rest.pieces.empty()) {
    rest.fill(*writes);
    EXPECT_LE(writes->count(), WorkRequestChain::kMostRequests);
    std::uint64_t chained = 0;
    for (const ibv_send_wr* request = writes->count() == 0 ? nullptr : writes->chain();
         request != nullptr; request = request->next) {
      EXPECT_EQ(request->wr.rdma.remote_addr, kTarget.address + cut.bytes);
      EXPECT_EQ(request->wr.rdma.rkey, kTarget.key);
      EXPECT_EQ(request->opcode, IBV_WR_RDMA_WRITE);
      EXPECT_GT(request->num_sge, 0);
      EXPECT_LE(request->num_sge,
                static_cast<int>(std::min(most_pieces, WorkRequestChain::kMostPieces)));
      std::uint64_t bytes = 0;
      for (int i = 0; i < request->num_sge; ++i) {
        const ibv_sge& place = request->sg_list[i];
        EXPECT_GT(place.length, 0U) << "an empty one is a waste";
        bytes += place.length;
        auto& stretches = cut.stretches;
        if (!stretches.empty() && stretches.back().key == place.lkey &&
            stretches.back().from + stretches.back().bytes == place.addr)
          stretches.back().bytes += place.length;
        else
          stretches.push_back({place.addr, place.length, place.lkey});
      }
      EXPECT_LE(bytes, max_message);
      cut.bytes += bytes;
      ++chained;
    }
    EXPECT_EQ(chained, writes->count());
    cut.requests += chained;
    EXPECT_EQ(rest.to.address, kTarget.address + cut.bytes);
  }
  return cut;
}

TEST(WorkRequestChain, OfOnePieceThatFitsAreOne) {
  const Cut one = cut({piece(0x1000, 4096)}, 16, 4096);
  EXPECT_EQ(one.requests, 1U);
  EXPECT_EQ(one.stretches, (std::vector<Stretch>{{0x1000, 4096, 1}}));
}

TEST(WorkRequestChain, AreCutAtTheLargestMessage) {
  EXPECT_EQ(cut({piece(0x1000, 4097)}, 16, 4096).requests, 2U);
  EXPECT_EQ(cut({piece(0x1000, 64 << 20)}, 16, 4096).requests, (64U << 20U) / 4096);
  EXPECT_EQ(cut({piece(0x1000, (64 << 20) + 1)}, 16, 1 << 20).requests, 65U);
}

TEST(WorkRequestChain, GatherUpToTheLargestNumberOfPieces) {
  std::vector<MemoryPiece> pieces;
  for (std::uint64_t i = 0; i < 20; ++i) pieces.push_back(piece(0x10000 * (i + 1), 8));
  EXPECT_EQ(cut(pieces, 16, 1 << 20).requests, 2U);
  EXPECT_EQ(cut(pieces, 4, 1 << 20).requests, 5U);
  EXPECT_EQ(cut(pieces, 1, 1 << 20).requests, 20U);
  EXPECT_EQ(cut(pieces, 100, 1 << 20).requests, 2U) << "never more than there are places";
}

TEST(WorkRequestChain, OfMoreThanFourGigabytesCoverEveryByte) {
  const std::uint64_t bytes = (std::uint64_t{4} << 30U) + 8;
  for (const std::uint64_t largest : {1ULL << 30U, (1ULL << 31U), 0x7fffffffULL, 8ULL << 20U}) {
    const Cut large = cut({piece(1 << 20, bytes)}, 16, largest);
    EXPECT_EQ(large.bytes, bytes);
    EXPECT_EQ(large.requests, (bytes + largest - 1) / largest);
    ASSERT_EQ(large.stretches.size(), 1U);
    EXPECT_EQ(large.stretches[0].bytes, bytes);
  }
}

TEST(WorkRequestChain, OfNothingAreOneEmptyRequest) {
  WorkRequestChain writes(16, 4096);
  writes.begin(kTarget);
  EXPECT_EQ(writes.count(), 0U);
  writes.add_empty();
  EXPECT_EQ(writes.count(), 1U);
  EXPECT_EQ(writes.chain()->num_sge, 0);
  EXPECT_EQ(writes.chain()->next, nullptr);
  EXPECT_EQ(writes.bytes(), 0U);
}

TEST(WorkRequestChain, HaveRoomForTheirEndWhenFull) {
  WorkRequestChain writes(1, 8);
  writes.begin(kTarget);
  MemoryPiece rest = piece(0x1000, 8 * WorkRequestChain::kMostRequests);
  writes.take(rest);
  EXPECT_EQ(rest.bytes, 0U);
  EXPECT_TRUE(writes.is_full());
  writes.add_empty();
  EXPECT_EQ(writes.last().wr.rdma.remote_addr,
            kTarget.address + 8 * WorkRequestChain::kMostRequests);
  EXPECT_EQ(writes.last().num_sge, 0);
}

TEST(WorkRequestChain, AreInlineAllOrNone) {
  WorkRequestChain writes(1, 8);
  writes.begin(kTarget);
  MemoryPiece rest = piece(0x1000, 24);
  writes.take(rest);
  writes.add_empty();
  writes.send_inline();
  for (const ibv_send_wr* request = writes.chain(); request != nullptr; request = request->next)
    EXPECT_NE(request->send_flags & IBV_SEND_INLINE, 0U);
}

TEST(WorkRequestChain, CoverAnyPiecesExactly) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<MemoryPiece> pieces;
    std::vector<Stretch> expected;
    std::uint64_t total = 0;
    const std::uint64_t count = 1 + random() % 60;
    const std::uint64_t largest = std::uint64_t{1} << random() % 16U;
    std::uint64_t at = 0x10000;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t bytes = random() % 4 == 0 ? 0 : 1 + random() % largest;
      const auto key = static_cast<std::uint32_t>(i);
      pieces.push_back(piece(at, bytes, key));
      if (bytes != 0) expected.push_back({at, bytes, key});
      at += bytes + 1 + random() % 100;
      total += bytes;
    }
    const auto most = static_cast<std::uint32_t>(1 + random() % 20);
    const Cut got = cut(pieces, most, 1 + random() % (2 * largest));
    ASSERT_EQ(got.stretches, expected) << "round " << round;
    ASSERT_EQ(got.bytes, total);
  }
}

}  // namespace
}  // namespace weft::p2p::verbs
