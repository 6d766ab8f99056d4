// Bytes that a fake NIC moves, and those it refuses to.
#include <algorithm>
#include <cstring>

#include "fake_rig.hpp"

namespace weft::p2p::verbs::fake {
namespace {

class FakeData : public TwoRanks {};

TEST_F(FakeData, WriteArrivesWholeWhateverItsAlignment) {
  make();
  for (const std::uint32_t length : {1U, 7U, 8U, 64U, 1000U, 4099U}) {
    for (const std::size_t from : {0U, 3U, 8U}) {
      for (const std::size_t to : {0U, 5U, 16U}) {
        std::fill(b_->memory.begin(), b_->memory.end(), std::byte{0});
        ASSERT_EQ(ab_->write(length, a_->sge(from, length), *b_, to), 0);
        const auto wc = a_->poll();
        ASSERT_TRUE(wc && wc->status == IBV_WC_SUCCESS);
        EXPECT_EQ(wc->wr_id, length);
        EXPECT_EQ(wc->opcode, IBV_WC_RDMA_WRITE);
        EXPECT_TRUE(std::equal(b_->memory.begin() + static_cast<std::ptrdiff_t>(to),
                               b_->memory.begin() + static_cast<std::ptrdiff_t>(to + length),
                               a_->memory.begin() + static_cast<std::ptrdiff_t>(from)));
        EXPECT_EQ(b_->memory[to + length], std::byte{0});
        if (to > 0) {
          EXPECT_EQ(b_->memory[to - 1], std::byte{0});
        }
      }
    }
  }
}

TEST_F(FakeData, PiecesAreGatheredInOrder) {
  make();
  ASSERT_EQ(ab_->send(write_request(1, *b_, 100), {a_->sge(10, 3), a_->sge(50, 0), a_->sge(30, 5)}),
            0);
  ASSERT_TRUE(a_->poll());
  EXPECT_EQ(std::memcmp(&b_->memory[100], &a_->memory[10], 3), 0);
  EXPECT_EQ(std::memcmp(&b_->memory[103], &a_->memory[30], 5), 0);
}

TEST_F(FakeData, InlineIsTakenWhenPostedAndNeedsNoKey) {
  make();
  std::uint64_t word = 0x1122334455667788;
  network_.hold(0);
  const ibv_sge local{reinterpret_cast<std::uint64_t>(&word), sizeof word, 0};
  ASSERT_EQ(ab_->write(1, local, *b_, 8, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  word = 0;
  network_.hold(0, false);
  ASSERT_EQ(a_->poll()->status, IBV_WC_SUCCESS);
  std::memcpy(&word, &b_->memory[8], sizeof word);
  EXPECT_EQ(word, 0x1122334455667788U);
}

TEST_F(FakeData, ImmediateUsesUpAReceiveAndTellsTheLength) {
  make();
  ASSERT_EQ(ba_->receive(77), 0);
  ibv_send_wr request = write_request(5, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
  request.imm_data = 0xabcdef01;
  ASSERT_EQ(ab_->send(request, {a_->sge(0, 24)}), 0);
  ASSERT_EQ(a_->poll()->wr_id, 5U);
  const auto wc = b_->poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc->wr_id, 77U);
  EXPECT_EQ(wc->byte_len, 24U);
  EXPECT_EQ(wc->imm_data, 0xabcdef01);
  EXPECT_NE(wc->wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(wc->qp_num, ba_->qp->qp_num);
}

TEST_F(FakeData, ImmediateWithoutBytesNeedsNoKey) {
  make();
  ASSERT_EQ(ba_->receive(1), 0);
  ibv_send_wr request = write_request(5, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
  request.wr.rdma.remote_addr = request.wr.rdma.rkey = 0;
  ASSERT_EQ(ab_->send(request), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_->poll()->byte_len, 0U);
}

TEST_F(FakeData, SendFillsTheReceivesPieces) {
  make();
  ASSERT_EQ(ba_->receive(3, {b_->sge(0, 5), b_->sge(64, 100)}), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(ab_->send(request, {a_->sge(0, 20)}), 0);
  const auto wc = b_->poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->opcode, IBV_WC_RECV);
  EXPECT_EQ(wc->byte_len, 20U);
  EXPECT_EQ(std::memcmp(&b_->memory[0], &a_->memory[0], 5), 0);
  EXPECT_EQ(std::memcmp(&b_->memory[64], &a_->memory[5], 15), 0);
  EXPECT_FALSE(a_->poll(std::chrono::milliseconds(5))) << "it was not signaled";
}

TEST_F(FakeData, ReadFetches) {
  make();
  ibv_send_wr request = write_request(9, *a_, 0, IBV_WR_RDMA_READ);
  ASSERT_EQ(ba_->send(request, {b_->sge(8, 100), b_->sge(1000, 30)}), 0);
  const auto wc = b_->poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc->opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(std::memcmp(&b_->memory[8], &a_->memory[0], 100), 0);
  EXPECT_EQ(std::memcmp(&b_->memory[1000], &a_->memory[100], 30), 0);
}

TEST_F(FakeData, AQueuePairMayBeConnectedToItself) {
  make();
  const Pair self(*a_);
  connect(self, self);
  ASSERT_EQ(self.receive(1), 0);
  ibv_send_wr request = write_request(2, *a_, 1024, IBV_WR_RDMA_WRITE_WITH_IMM);
  ASSERT_EQ(self.send(request, {a_->sge(0, 100)}), 0);
  EXPECT_EQ(a_->poll()->wr_id, 1U);
  EXPECT_EQ(a_->poll()->wr_id, 2U);
  EXPECT_EQ(std::memcmp(&a_->memory[1024], &a_->memory[0], 100), 0);
}

TEST_F(FakeData, InfiniBandLeadsByLid) {
  const NicSpec spec{.ports = {{.ethernet = false}}};
  make(spec, spec);
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_SUCCESS);
}

class FakeProtection : public TwoRanks {
 protected:
  /// Requires that the request ends with `status`, and that the peer's queue pair fails if
  /// `breaks_peer`.
  void expect(const ibv_send_wr& request, std::vector<ibv_sge> pieces, ibv_wc_status status,
              bool breaks_peer) {
    ASSERT_EQ(ba_->receive(50, {b_->sge(0, 8)}), 0);
    ASSERT_EQ(ab_->send(request, std::move(pieces)), 0);
    const auto wc = a_->poll();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->status, status);
    EXPECT_EQ(wc->wr_id, request.wr_id);
    EXPECT_EQ(b_->event().has_value(), breaks_peer);
    EXPECT_EQ(b_->poll(std::chrono::milliseconds(1)).has_value(), breaks_peer);
    EXPECT_EQ(std::count(b_->memory.begin(), b_->memory.end(), std::byte{0}), 64 << 10);
  }
};

TEST_F(FakeProtection, KeyOfAnotherIsRefused) {
  make();
  ibv_send_wr request = write_request(1, *b_, 0);
  request.wr.rdma.rkey = a_->region->rkey;
  expect(request, {a_->sge(0, 8)}, IBV_WC_REM_ACCESS_ERR, true);
}

TEST_F(FakeProtection, LocalKeyIsNoRemoteKey) {
  make();
  ibv_send_wr request = write_request(1, *b_, 0);
  request.wr.rdma.rkey = b_->region->lkey;
  expect(request, {a_->sge(0, 8)}, IBV_WC_REM_ACCESS_ERR, true);
}

TEST_F(FakeProtection, WriteMustEndWithinTheRegion) {
  make();
  expect(write_request(1, *b_, (64 << 10) - 7), {a_->sge(0, 8)}, IBV_WC_REM_ACCESS_ERR, true);
}

TEST_F(FakeProtection, RegionMustBeOfTheQueuePairsDomain) {
  make();
  const ProtectionDomain other(*b_->verbs, b_->verbs->alloc_pd(b_->context.get()));
  const MemoryRegion region(*b_->verbs,
                            b_->verbs->reg_mr(other.get(), b_->memory.data(), 64, kAllAccess));
  ibv_send_wr request = write_request(1, *b_, 0);
  request.wr.rdma.rkey = region->rkey;
  expect(request, {a_->sge(0, 8)}, IBV_WC_REM_ACCESS_ERR, true);
}

TEST_F(FakeProtection, LocalRangeIsChecked) {
  make();
  expect(write_request(1, *b_, 0), {a_->sge((64 << 10) - 7, 8)}, IBV_WC_LOC_PROT_ERR, false);
}

TEST_F(FakeProtection, LongMessageIsRefused) {
  make({.max_message = 4096});
  expect(write_request(1, *b_, 0), {a_->sge(0, 4097)}, IBV_WC_LOC_LEN_ERR, false);
}

TEST_F(FakeProtection, SendLongerThanItsReceiveBreaksBoth) {
  make();
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  expect(request, {a_->sge(0, 9)}, IBV_WC_REM_INV_REQ_ERR, true);
}

TEST_F(FakeProtection, RegionMustAllowTheAccess) {
  a_.emplace(network_.device(0));
  b_.emplace(network_.device(1), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  ab_.emplace(*a_);
  ba_.emplace(*b_);
  connect(*ab_, *ba_);
  expect(write_request(1, *b_, 0), {a_->sge(0, 8)}, IBV_WC_REM_ACCESS_ERR, true);
}

TEST_F(FakeProtection, QueuePairMustAllowTheAccess) {
  a_.emplace(network_.device(0));
  b_.emplace(network_.device(1));
  ab_.emplace(*a_);
  ba_.emplace(*b_);
  ab_->to_init();
  ba_->to_init(0);
  ab_->to_ready(*ba_);
  ba_->to_ready(*ab_);
  expect(write_request(1, *b_, 0), {a_->sge(0, 8)}, IBV_WC_REM_ACCESS_ERR, true);
}

TEST_F(FakeProtection, RemoteWriteNeedsLocalWrite) {
  make();
  EXPECT_EQ(a_->verbs->reg_mr(a_->domain.get(), a_->memory.data(), 8, IBV_ACCESS_REMOTE_WRITE),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(FakeProtection, NothingIsWrittenOnceTheRegionIsGone) {
  make();
  const ibv_send_wr request = write_request(1, *b_, 0);
  b_->region = {};
  ASSERT_EQ(ab_->send(request, {a_->sge(0, 8)}), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace weft::p2p::verbs::fake
