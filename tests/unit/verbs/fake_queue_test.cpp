// States, queues and completions of a fake NIC.
#include <poll.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "fake_rig.hpp"

namespace weft::p2p::verbs::fake {
namespace {

using std::chrono::milliseconds;

bool is_readable(int fd) {
  pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) == 1;
}

class FakeStates : public TwoRanks {};

TEST_F(FakeStates, EachStepNeedsItsAttributesAndNoOthers) {
  make();
  const Pair fresh(*a_);
  EXPECT_EQ(fresh.to(IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(fresh.to(IBV_QPS_INIT), EINVAL);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  EXPECT_EQ(a_->verbs->modify_qp(fresh.qp.get(), &attributes,
                                 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                     IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT),
            EINVAL);
  fresh.to_init();
  EXPECT_EQ(fresh.to(IBV_QPS_RTR), EINVAL);
  attributes.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(a_->verbs->modify_qp(fresh.qp.get(), &attributes, IBV_QP_STATE | IBV_QP_TIMEOUT),
            EINVAL);
  EXPECT_EQ(fresh.to(IBV_QPS_ERR), 0);
  EXPECT_EQ(fresh.to(IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(fresh.to(IBV_QPS_RESET), 0);
  fresh.to_init();
}

TEST_F(FakeStates, PostingNeedsTheState) {
  make();
  const Pair fresh(*a_);
  EXPECT_EQ(fresh.receive(1), EINVAL);
  fresh.to_init();
  EXPECT_EQ(fresh.receive(1), 0);
  EXPECT_EQ(fresh.write(1, a_->sge(0, 8), *b_, 0), EINVAL);
}

TEST_F(FakeStates, ErrorFlushesAllInOrder) {
  make();
  network_.hold(0);
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0, 0), 0);
  ASSERT_EQ(ab_->write(2, a_->sge(0, 8), *b_, 0), 0);
  ASSERT_EQ(ab_->receive(3), 0);
  ASSERT_EQ(ab_->to(IBV_QPS_ERR), 0);
  ASSERT_EQ(ab_->write(4, a_->sge(0, 8), *b_, 0), 0);
  ASSERT_EQ(ab_->receive(5), 0);
  for (const std::uint64_t id : {1U, 2U, 3U, 4U, 5U}) {
    const auto wc = a_->poll(milliseconds(0));
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->wr_id, id);
    EXPECT_EQ(wc->status, IBV_WC_WR_FLUSH_ERR);
  }
  network_.hold(0, false);
  EXPECT_FALSE(a_->poll(milliseconds(5)));
}

TEST_F(FakeStates, NothingArrivesAtAQueuePairInError) {
  make();
  ASSERT_EQ(ba_->to(IBV_QPS_ERR), 0);
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(b_->memory[0], std::byte{0});
}

TEST_F(FakeStates, SequenceNumbersMustMeet) {
  make();
  Pair from(*a_);
  const Pair to(*b_);
  from.psn_shift = 1;
  connect(from, to);
  ASSERT_EQ(to.write(1, b_->sge(0, 8), *a_, 0), 0);
  EXPECT_EQ(b_->poll()->status, IBV_WC_SUCCESS);
  ASSERT_EQ(from.write(1, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(FakeStates, SenderThatWaitsForAReceiveNoticesThatThePeerIsInError) {
  make();
  ASSERT_EQ(ab_->send(write_request(1, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM)), 0);
  ASSERT_EQ(ba_->to(IBV_QPS_ERR), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(FakeStates, WhatWasDoneBeforeTheErrorSaysSo) {
  make({.faults = {.late = 1, .longest = std::chrono::seconds(100)}});
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0);
  network_.hold(0);
  ASSERT_EQ(ab_->write(2, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_FALSE(a_->poll(milliseconds(1)));
  ASSERT_EQ(ab_->to(IBV_QPS_ERR), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_SUCCESS);
  EXPECT_EQ(a_->poll()->status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(FakeStates, ResetForgetsCompletions) {
  make();
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0);
  ASSERT_EQ(ab_->to(IBV_QPS_RESET), 0);
  EXPECT_FALSE(a_->poll(milliseconds(0)));
}

TEST_F(FakeStates, WorkWaitsForAPeerThatIsNotReadyYet) {
  make();
  const Pair from(*a_);
  const Pair to(*b_);
  from.to_init();
  to.to_init();
  from.to_ready(to);
  ASSERT_EQ(from.write(1, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_FALSE(a_->poll(milliseconds(2)));
  to.to_ready(from);
  EXPECT_EQ(a_->poll()->status, IBV_WC_SUCCESS);
}

TEST_F(FakeStates, WhatIsInUseIsNotDestroyed) {
  make();
  clean_ = false;
  EXPECT_EQ(a_->verbs->dealloc_pd(a_->domain.get()), EBUSY);
  EXPECT_EQ(a_->verbs->destroy_cq(a_->queue.get()), EBUSY);
  EXPECT_EQ(a_->verbs->destroy_comp_channel(a_->channel.get()), EBUSY);
  EXPECT_EQ(a_->verbs->close_device(a_->context.get()), EBUSY);
  EXPECT_NE(network_.complaints(), "");
}

class FakeQueues : public TwoRanks {};

TEST_F(FakeQueues, SendQueueIsFreeOnceACompletionWasPolled) {
  make();
  for (std::uint64_t i = 0; i < 63; ++i) ASSERT_EQ(ab_->write(i, a_->sge(0, 8), *b_, 0, 0), 0);
  ASSERT_EQ(ab_->write(63, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_EQ(ab_->write(64, a_->sge(0, 8), *b_, 0), ENOMEM);
  EXPECT_EQ(a_->poll()->wr_id, 63U);
  EXPECT_FALSE(a_->poll(milliseconds(1)));
  EXPECT_EQ(ab_->write(65, a_->sge(0, 8), *b_, 0), 0);
}

TEST_F(FakeQueues, CompletionFreesNoMoreThanItsOwnPlace) {
  make();
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_EQ(ab_->write(i, a_->sge(0, 8), *b_, 0), 0);
  ASSERT_TRUE(a_->poll());
  EXPECT_EQ(ab_->write(64, a_->sge(0, 8), *b_, 0), 0);
  EXPECT_EQ(ab_->write(65, a_->sge(0, 8), *b_, 0), ENOMEM);
}

TEST_F(FakeQueues, ChainIsPostedUpToWhatIsBad) {
  make();
  ibv_send_wr requests[3] = {write_request(1, *b_, 0), write_request(2, *b_, 0),
                             write_request(3, *b_, 0)};
  requests[0].next = &requests[1];
  requests[1].next = &requests[2];
  requests[1].opcode = IBV_WR_BIND_MW;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(a_->verbs->post_send(ab_->qp.get(), requests, &bad), EOPNOTSUPP);
  EXPECT_EQ(bad, &requests[1]);
  EXPECT_EQ(a_->poll()->wr_id, 1U);
  EXPECT_FALSE(a_->poll(milliseconds(1)));
}

TEST_F(FakeQueues, ReceiveQueueHasItsDepth) {
  make();
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_EQ(ba_->receive(i), 0);
  EXPECT_EQ(ba_->receive(64), ENOMEM);
}

TEST_F(FakeQueues, SenderWaitsForAReceive) {
  make();
  const ibv_send_wr request = write_request(1, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
  ASSERT_EQ(ab_->send(request, {a_->sge(0, 8)}), 0);
  ASSERT_EQ(ab_->write(2, a_->sge(0, 8), *b_, 8), 0);
  EXPECT_FALSE(a_->poll(milliseconds(5))) << "and so does what follows";
  ASSERT_EQ(ba_->receive(1), 0);
  EXPECT_EQ(a_->poll()->wr_id, 1U);
  EXPECT_EQ(a_->poll()->wr_id, 2U);
}

TEST_F(FakeQueues, SenderGivesUpWhenReceivesStayAway) {
  make({}, {}, 3);
  const ibv_send_wr request = write_request(1, *b_, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(ab_->send(request, {a_->sge(0, 8)}), 0);
  EXPECT_EQ(a_->poll()->status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(6));
}

TEST_F(FakeQueues, ArmedQueueHasOneEventForItsNextCompletion) {
  make();
  Verbs& verbs = *a_->verbs;
  const auto write = [&] { ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0); };
  ibv_cq* cq = nullptr;
  write();
  EXPECT_FALSE(is_readable(a_->channel->fd)) << "not armed";
  ASSERT_EQ(verbs.req_notify_cq(a_->queue.get()), 0);
  EXPECT_FALSE(is_readable(a_->channel->fd)) << "what was there before makes no event";
  EXPECT_EQ(verbs.get_cq_event(a_->channel.get(), &cq), EAGAIN);
  write();
  write();
  EXPECT_TRUE(is_readable(a_->channel->fd));
  ASSERT_EQ(verbs.get_cq_event(a_->channel.get(), &cq), 0);
  EXPECT_EQ(cq, a_->queue.get());
  EXPECT_EQ(verbs.get_cq_event(a_->channel.get(), &cq), EAGAIN) << "armed for one only";
  verbs.ack_cq_events(cq, 1);
}

TEST_F(FakeQueues, UnreadEventsGoWithTheirQueue) {
  make();
  CompletionQueue other(*a_->verbs, a_->verbs->create_cq(a_->context.get(), 8, a_->channel.get()));
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = other.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
  QueuePairHandle qp(*a_->verbs, a_->verbs->create_qp(a_->domain.get(), &attributes));
  ASSERT_EQ(a_->verbs->req_notify_cq(other.get()), 0);
  Pair pair(*a_);
  std::swap(pair.qp, qp);
  pair.to_init();
  ASSERT_EQ(pair.receive(1), 0);
  ASSERT_EQ(pair.to(IBV_QPS_ERR), 0);
  EXPECT_TRUE(is_readable(a_->channel->fd));
  pair.qp = {};
  other = {};
  ibv_cq* cq = nullptr;
  EXPECT_EQ(a_->verbs->get_cq_event(a_->channel.get(), &cq), EAGAIN);
}

TEST_F(FakeQueues, EventsMustBeAcknowledgedBeforeTheirQueueGoes) {
  make();
  clean_ = false;
  ASSERT_EQ(a_->verbs->req_notify_cq(a_->queue.get()), 0);
  ASSERT_EQ(ab_->write(1, a_->sge(0, 8), *b_, 0), 0);
  ibv_cq* cq = nullptr;
  ASSERT_EQ(a_->verbs->get_cq_event(a_->channel.get(), &cq), 0);
  ab_.reset();
  EXPECT_EQ(a_->verbs->destroy_cq(cq), EBUSY);
  a_->verbs->ack_cq_events(cq, 1);
}

TEST_F(FakeQueues, OverrunIsAnEventAndBreaksTheQueuePairs) {
  make();
  clean_ = false;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 5; ++i) {  // 320 completions into 256 places
    const Pair& pair = *pairs.emplace_back(std::make_unique<Pair>(*a_));
    pair.to_init();
    for (std::uint64_t id = 0; id < 64; ++id) ASSERT_EQ(pair.receive(id), 0);
    ASSERT_EQ(pair.to(IBV_QPS_ERR), 0);
  }
  const auto event = a_->event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event->element.cq, a_->queue.get());
  EXPECT_NE(network_.complaints(), "");
  EXPECT_EQ(ba_->write(1, b_->sge(0, 8), *a_, 0), 0);
  EXPECT_EQ(b_->poll()->status, IBV_WC_RETRY_EXC_ERR) << "the other end is in error";
}

}  // namespace
}  // namespace weft::p2p::verbs::fake
