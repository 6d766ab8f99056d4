// Queue pairs, and what is posted to them.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "p2p/transport/verbs/fake/fake_verbs.hpp"
#include "p2p/transport/verbs/fake/states.hpp"

namespace weft::p2p::verbs::fake {
namespace {

FakeContext& fake(ibv_context* context) { return static_cast<FakeContext&>(*context); }
FakePd& fake(ibv_pd* pd) { return static_cast<FakePd&>(*pd); }
FakeCq& fake(ibv_cq* cq) { return static_cast<FakeCq&>(*cq); }
FakeQp& fake(ibv_qp* qp) { return static_cast<FakeQp&>(*qp); }

int check(const NicSpec& spec, const ibv_qp_init_attr& attributes) {
  const ibv_qp_cap& cap = attributes.cap;
  const auto depth = static_cast<std::uint32_t>(spec.max_depth);
  const auto sges = static_cast<std::uint32_t>(spec.max_sges);
  if (attributes.qp_type != IBV_QPT_RC) return EOPNOTSUPP;
  if (attributes.send_cq == nullptr || attributes.recv_cq == nullptr || attributes.srq != nullptr ||
      cap.max_send_wr > depth || cap.max_recv_wr > depth || cap.max_send_sge > sges ||
      cap.max_recv_sge > sges || cap.max_inline_data > spec.max_inline)
    return EINVAL;
  return 0;
}

std::vector<FakeSge> pieces_of(const ibv_sge* list, int count) {
  std::vector<FakeSge> pieces;
  pieces.reserve(static_cast<std::size_t>(count));
  for (const ibv_sge* one = list; one != list + count; ++one)
    pieces.push_back({one->addr, one->length, one->lkey});
  return pieces;
}

// Checks all that can be checked without the other end. Returns 0, or post_send's error.
int prepare(const FakeQp& qp, const ibv_send_wr& request, Send& send) {
  const NicSpec& spec = qp.nic->spec;
  const bool immediate =
      request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || request.opcode == IBV_WR_SEND_WITH_IMM;
  if (immediate && spec.iwarp) return EOPNOTSUPP;
  if (!immediate && request.opcode != IBV_WR_RDMA_WRITE && request.opcode != IBV_WR_SEND &&
      request.opcode != IBV_WR_RDMA_READ)
    return EOPNOTSUPP;
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > qp.limits.max_send_sge)
    return EINVAL;
  send.request = request;
  send.signaled = qp.all_signaled || (request.send_flags & IBV_SEND_SIGNALED) != 0;
  send.pieces = pieces_of(request.sg_list, request.num_sge);
  for (const FakeSge& piece : send.pieces) send.length += piece.length;
  if ((request.send_flags & IBV_SEND_INLINE) == 0) return 0;
  if (send.length > qp.limits.max_inline_data || request.opcode == IBV_WR_RDMA_READ) return EINVAL;
  send.inlined.reserve(send.length);
  for (const FakeSge& piece : send.pieces) {
    const auto* bytes = reinterpret_cast<const std::byte*>(piece.address);
    send.inlined.insert(send.inlined.end(), bytes, bytes + piece.length);
  }
  send.pieces.clear();
  return 0;
}

}  // namespace

ibv_qp* FakeVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(pd->context).nic;
  errno = engine_->refused(nic, VerbsCall::create_qp);
  if (errno == 0) errno = check(nic.spec, *attributes);
  if (errno == 0 && nic.queue_pairs.size() >= static_cast<std::size_t>(nic.spec.max_queue_pairs))
    errno = ENOMEM;
  if (errno != 0) return nullptr;
  const int ordinal = nic.queue_pairs_made++;
  auto qp = std::make_shared<FakeQp>(nic.seed + static_cast<std::uint64_t>(ordinal));
  qp->context = pd->context;
  qp->qp_context = attributes->qp_context;
  qp->pd = pd;
  qp->send_cq = attributes->send_cq;
  qp->recv_cq = attributes->recv_cq;
  qp->qp_num = nic.next_queue_pair++;
  qp->state = IBV_QPS_RESET;
  qp->qp_type = attributes->qp_type;
  qp->nic = &nic;
  qp->ordinal = ordinal;
  qp->limits = attributes->cap;
  qp->all_signaled = attributes->sq_sig_all != 0;
  ++fake(pd).users;
  ++fake(pd->context).users;
  ++fake(qp->send_cq).users;
  ++fake(qp->recv_cq).users;
  return (nic.queue_pairs[qp->qp_num] = std::move(qp)).get();
}

int FakeVerbs::destroy_qp(ibv_qp* qp) noexcept {
  const auto lock = engine_->lock();
  fake(qp->context).events.forget([&](const ibv_async_event& event) {
    return (event.event_type == IBV_EVENT_QP_ACCESS_ERR ||
            event.event_type == IBV_EVENT_QP_REQ_ERR) &&
           event.element.qp == qp;
  });
  // The library would wait without end.
  if (fake(qp).unacknowledged != 0)
    return busy("a queue pair was destroyed before its events were acknowledged");
  engine_->reset(fake(qp));
  engine_->run();
  --fake(qp->pd).users;
  --fake(qp->context).users;
  --fake(qp->send_cq).users;
  --fake(qp->recv_cq).users;
  fake(qp).nic->queue_pairs.erase(qp->qp_num);
  return 0;
}

int FakeVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) noexcept {
  const auto lock = engine_->lock();
  FakeQp& which = fake(qp);
  if (const int error = engine_->refused(*which.nic, VerbsCall::modify_qp); error != 0)
    return error;
  const auto bits = static_cast<unsigned>(mask);
  if (const int error = take_attributes(which, *attributes, bits); error != 0) return error;
  if ((bits & IBV_QP_STATE) == 0) return 0;
  qp->state = attributes->qp_state;
  switch (attributes->qp_state) {
    case IBV_QPS_RESET:
      engine_->reset(which);
      break;
    case IBV_QPS_ERR:
      engine_->fail(which);
      break;
    case IBV_QPS_RTR:
      which.now = IBV_QPS_RTR;
      engine_->find_remote(which);
      engine_->look_at_sender_to(which);
      break;
    default:
      which.now = attributes->qp_state;
  }
  engine_->run();
  return 0;
}

bool FakeVerbs::data_in_order(ibv_qp* qp, ibv_wr_opcode /*opcode*/) noexcept {
  return fake(qp).nic->spec.data_in_order;
}

int FakeVerbs::post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept {
  const auto lock = engine_->lock();
  FakeQp& queue = fake(qp);
  int error = engine_->refused(*queue.nic, VerbsCall::post_send);
  if (queue.now != IBV_QPS_RTS && queue.now != IBV_QPS_ERR) error = EINVAL;
  if (error == 0 && queue.completions_due > 0 && queue.random.chance(queue.nic->spec.faults.full))
    error = ENOMEM;
  for (; requests != nullptr; requests = requests->next) {
    Send send;
    if (error == 0 && queue.posted - queue.reclaimed >= queue.limits.max_send_wr) error = ENOMEM;
    if (error == 0) error = prepare(queue, *requests, send);
    if (error != 0) {
      *bad = requests;
      break;
    }
    engine_->post(queue, std::move(send));
  }
  engine_->run();
  return error;
}

int FakeVerbs::post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) noexcept {
  const auto lock = engine_->lock();
  FakeQp& queue = fake(qp);
  int error = engine_->refused(*queue.nic, VerbsCall::post_recv);
  if (queue.now == IBV_QPS_RESET) error = EINVAL;
  for (; requests != nullptr; requests = requests->next) {
    if (error == 0 && queue.receives_taken >= static_cast<std::int64_t>(queue.limits.max_recv_wr))
      error = ENOMEM;
    if (error == 0 && (requests->num_sge < 0 ||
                       static_cast<std::uint32_t>(requests->num_sge) > queue.limits.max_recv_sge))
      error = EINVAL;
    if (error != 0) {
      *bad = requests;
      break;
    }
    engine_->post_receive(queue,
                          {requests->wr_id, pieces_of(requests->sg_list, requests->num_sge)});
  }
  engine_->run();
  return error;
}

}  // namespace weft::p2p::verbs::fake
