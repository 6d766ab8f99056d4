// The life of a work request, from its posting to its completion.
#include <algorithm>
#include <cstring>
#include <utility>

#include "p2p/transport/verbs/fake/engine.hpp"
#include "p2p/transport/verbs/fake/memory.hpp"

namespace weft::p2p::verbs::fake {
namespace {

using std::chrono::nanoseconds;

bool writes(const Send& send) noexcept {
  return send.request.opcode == IBV_WR_RDMA_WRITE ||
         send.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool reads(const Send& send) noexcept { return send.request.opcode == IBV_WR_RDMA_READ; }
bool notifies(const Send& send) noexcept {
  return !reads(send) && send.request.opcode != IBV_WR_RDMA_WRITE;
}
bool has_immediate(const Send& send) noexcept {
  return send.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
         send.request.opcode == IBV_WR_SEND_WITH_IMM;
}

void count(NicCounts& counts, const Send& send) noexcept {
  if (reads(send))
    ++counts.reads;
  else if (!writes(send))
    ++counts.sends;
  else
    ++(has_immediate(send) ? counts.writes_with_immediate : counts.writes);
  if (!send.inlined.empty()) ++counts.inlined;
  if (send.signaled) ++counts.signaled;
}

// The standard defines four fields of a failed request; the others must not be used.
Completion completion_of(FakeQp& qp, std::uint64_t id, ibv_wc_status status) {
  Completion completion;
  if (status != IBV_WC_SUCCESS) std::memset(&completion.wc, 0xa5, sizeof completion.wc);
  completion.wc.wr_id = id;
  completion.wc.status = status;
  completion.wc.vendor_err = 0;
  completion.wc.qp_num = qp.qp_num;
  completion.qp = &qp;
  return completion;
}

Completion completion_of(FakeQp& qp, const Send& send, ibv_wc_status status) {
  Completion completion = completion_of(qp, send.request.wr_id, status);
  completion.signaled = send.signaled;
  completion.posted = send.posted;
  if (status == IBV_WC_SUCCESS) {
    completion.wc.opcode = reads(send)    ? IBV_WC_RDMA_READ
                           : writes(send) ? IBV_WC_RDMA_WRITE
                                          : IBV_WC_SEND;
    completion.wc.byte_len = static_cast<std::uint32_t>(send.length);
  }
  return completion;
}

Completion completion_of(FakeQp& qp, const Receive& receive, ibv_wc_status status) {
  Completion completion = completion_of(qp, receive.id, status);
  completion.receive = true;
  return completion;
}

}  // namespace

void Engine::draw_outcome(FakeQp& qp, Send& send) {
  const FaultPlan& plan = qp.nic->spec.faults;
  Random& random = qp.random;
  for (const Failure& failure : plan.failures)
    if (failure.queue_pair < 0 ? failure.nth == qp.nic->posted
                               : failure.queue_pair == qp.ordinal && failure.nth == send.posted)
      send.forced = failure.status;
  if (random.chance(plan.failed)) send.forced = plan.failed_with;
  if (random.chance(plan.delayed))
    send.due = std::chrono::steady_clock::now() + random.between(nanoseconds(0), plan.longest);
  if (random.chance(plan.late)) send.late = random.between(nanoseconds(1), plan.longest);
  send.scattered = random.chance(plan.scattered) && writes(send) && !qp.nic->spec.data_in_order;
  send.overtaken = random.chance(plan.overtaken) && send.request.opcode == IBV_WR_RDMA_WRITE;
}

void Engine::post(FakeQp& qp, Send send) {
  send.posted = ++qp.posted;
  ++qp.nic->posted;
  count(qp.nic->counts, send);
  if (send.signaled) ++qp.completions_due;
  draw_outcome(qp, send);
  if (qp.now == IBV_QPS_ERR) {
    complete(static_cast<FakeCq&>(*qp.send_cq), completion_of(qp, send, IBV_WC_WR_FLUSH_ERR));
    return;
  }
  qp.sends.push_back(std::move(send));
  look_at(qp);
}

void Engine::post_receive(FakeQp& qp, Receive receive) {
  ++qp.nic->counts.receives;
  ++qp.receives_taken;
  if (qp.now == IBV_QPS_ERR) {
    complete(static_cast<FakeCq&>(*qp.recv_cq), completion_of(qp, receive, IBV_WC_WR_FLUSH_ERR));
    return;
  }
  qp.receives.push_back(std::move(receive));
  look_at_sender_to(qp);
}

void Engine::advance(FakeQp& qp) {
  const Time now = std::chrono::steady_clock::now();
  while (!qp.sends.empty() && qp.now == IBV_QPS_RTS && !qp.nic->held) {
    Send& first = qp.sends.front();
    if (first.due > now) {
      wake(qp, first.due);
      break;
    }
    const Step step = carry_out(qp, first, now);
    if (!step.ended) {
      wake(qp, step.again);
      break;
    }
    Send send = std::move(first);
    qp.sends.pop_front();
    end(qp, std::move(send), step.status);
    if (step.breaks != nullptr) {
      ibv_async_event event{};
      event.element.qp = step.breaks;
      event.event_type =
          step.status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
      raise(step.breaks->context, event);
      fail(*step.breaks);
    }
  }
  deliver(qp, now);
}

Engine::Step Engine::carry_out(FakeQp& qp, Send& send, Time now) {
  if (send.forced != IBV_WC_SUCCESS) return {.ended = true, .status = send.forced};
  if (send.length > qp.nic->spec.max_message) return {.ended = true, .status = IBV_WC_LOC_LEN_ERR};
  for (const FakeSge& piece : send.pieces)
    if (!may_use(*qp.nic, qp.pd, piece, reads(send) ? IBV_ACCESS_LOCAL_WRITE : 0))
      return {.ended = true, .status = IBV_WC_LOC_PROT_ERR};
  FakeQp* peer = peer_of(qp);
  if (peer == nullptr) return silence(qp, send, now);
  send.gives_up = {};
  return carry(qp, send, *peer, now);
}

Engine::Step Engine::silence(FakeQp& qp, Send& send, Time now) {
  if (qp.attributes.timeout == 0) return {};
  if (send.gives_up == Time{}) send.gives_up = now + options_.retry_wait;
  if (now >= send.gives_up) return {.ended = true, .status = IBV_WC_RETRY_EXC_ERR};
  return {.again = send.gives_up};
}

Engine::Step Engine::await_receive(FakeQp& qp, Send& send, Time now) {
  constexpr int kForEver = 7;
  if (qp.attributes.rnr_retry == kForEver) return {};
  if (send.rnr_ends == Time{}) send.rnr_ends = now + qp.attributes.rnr_retry * options_.rnr_wait;
  if (now >= send.rnr_ends) return {.ended = true, .status = IBV_WC_RNR_RETRY_EXC_ERR};
  return {.again = send.rnr_ends};
}

Engine::Step Engine::carry(FakeQp& qp, Send& send, FakeQp& peer, Time now) {
  if (reads(send) || writes(send)) {
    const ibv_send_wr& request = send.request;
    const int access = reads(send) ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    if (!peer_may_use(peer, request.wr.rdma.remote_addr, send.length, request.wr.rdma.rkey, access))
      return {.ended = true, .status = IBV_WC_REM_ACCESS_ERR, .breaks = &peer};
  }
  if (notifies(send) && peer.receives.empty()) return await_receive(qp, send, now);
  send.rnr_ends = {};
  if (send.overtaken)
    land_later(qp, send, peer, now);
  else if ((reads(send) || writes(send)) && land(qp, send))
    return {.again = now + qp.random.between(nanoseconds(0), qp.nic->spec.faults.longest)};
  qp.nic->counts.bytes += send.length;
  if (!notifies(send)) return {.ended = true};
  const ibv_wc_status status = take_receive(peer, send);
  return {.ended = true, .status = status, .breaks = status == IBV_WC_SUCCESS ? nullptr : &peer};
}

bool Engine::land(FakeQp& qp, Send& send) const {
  if (!send.scattered) {
    copy_payload(gpus(), send, 0, send.length);
    return false;
  }
  if (send.cuts.empty()) {
    // The last line of the target, or its last word, is a part of its own and lands first.
    const std::uint64_t line = send.length > 64 ? 64 : 8;
    const std::uint64_t target = send.request.wr.rdma.remote_addr;
    const std::uint64_t last = (target + send.length - 1) / line * line;
    send.cuts.push_back(0);
    for (int i = 0; i < 2 && last > target; ++i) {
      const std::uint64_t cut = (target + qp.random.below(last - target)) / line * line;
      if (cut > target) send.cuts.push_back(cut - target);
    }
    if (last > target) send.cuts.push_back(last - target);
    std::sort(send.cuts.begin(), send.cuts.end());
    for (std::size_t i = 0; i < send.cuts.size(); ++i) send.order.push_back(i);
    for (std::size_t i = 0; i + 1 < send.order.size(); ++i)
      std::swap(send.order[i], send.order[qp.random.below(i + 1)]);
  }
  const std::size_t part = send.order.back();
  send.order.pop_back();
  copy_payload(gpus(), send, send.cuts[part],
               part + 1 < send.cuts.size() ? send.cuts[part + 1] : send.length);
  return !send.order.empty();
}

namespace {

/// The write with its bytes: the source is its owner's again as soon as the request completes.
Send copy_of(GpuMemory* gpus, const Send& send) {
  Send kept;
  kept.request = send.request;
  kept.length = send.length;
  kept.inlined.resize(send.length);
  auto place = reinterpret_cast<std::uint64_t>(kept.inlined.data());
  if (!send.inlined.empty()) kept.inlined = send.inlined;
  for (const FakeSge& piece : send.pieces) {
    copy_between(gpus, place, piece.address, piece.length);
    place += piece.length;
  }
  return kept;
}

}  // namespace

void Engine::straggle(FakeQp& qp, const Send& send) {
  const FaultPlan& plan = qp.nic->spec.faults;
  FakeQp* peer = partner_of(qp);
  if (peer == nullptr || !writes(send) || !qp.random.chance(plan.straggling)) return;
  at(std::chrono::steady_clock::now() + qp.random.between(plan.longest / 2, plan.longest),
     [gpus = gpus(), kept = copy_of(gpus(), send), psn = qp.attributes.sq_psn,
      weak = peer->weak_from_this()] {
       const std::shared_ptr<FakeQp> target = weak.lock();
       const bool takes = target != nullptr && target->attributes.rq_psn == psn &&
                          (target->now == IBV_QPS_RTR || target->now == IBV_QPS_RTS);
       if (takes && peer_may_use(*target, kept.request.wr.rdma.remote_addr, kept.length,
                                 kept.request.wr.rdma.rkey, IBV_ACCESS_REMOTE_WRITE))
         copy_payload(gpus, kept, 0, kept.length);
     });
}

void Engine::land_later(FakeQp& qp, const Send& send, FakeQp& peer, Time now) {
  const nanoseconds longest = qp.nic->spec.faults.longest;
  at(now + qp.random.between(longest / 2, longest),
     [gpus = gpus(), kept = copy_of(gpus(), send), weak = peer.weak_from_this()] {
       const std::shared_ptr<FakeQp> target = weak.lock();
       if (target != nullptr && peer_may_use(*target, kept.request.wr.rdma.remote_addr, kept.length,
                                             kept.request.wr.rdma.rkey, IBV_ACCESS_REMOTE_WRITE))
         copy_payload(gpus, kept, 0, kept.length);
     });
}

ibv_wc_status Engine::take_receive(FakeQp& peer, const Send& send) {
  const Receive receive = std::move(peer.receives.front());
  peer.receives.pop_front();
  auto& cq = static_cast<FakeCq&>(*peer.recv_cq);
  if (!writes(send)) {
    std::uint64_t room = 0;
    bool may = true;
    for (const FakeSge& piece : receive.pieces) {
      room += piece.length;
      may = may && may_use(*peer.nic, peer.pd, piece, IBV_ACCESS_LOCAL_WRITE);
    }
    if (room < send.length || !may) {
      complete(cq, completion_of(peer, receive, may ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR));
      return may ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR;
    }
    copy_to_receive(send, receive);
    if (tamper_ && peer.remote != nullptr && receive.pieces.size() == 1)
      tamper_(peer.remote->rank, {reinterpret_cast<std::byte*>(receive.pieces.front().address),
                                  static_cast<std::size_t>(send.length)});
  }
  Completion completion = completion_of(peer, receive, IBV_WC_SUCCESS);
  completion.wc.opcode = writes(send) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  completion.wc.byte_len = static_cast<std::uint32_t>(send.length);
  if (has_immediate(send)) {
    completion.wc.wc_flags = IBV_WC_WITH_IMM;
    completion.wc.imm_data = send.request.imm_data;
  }
  complete(cq, completion);
  return IBV_WC_SUCCESS;
}

void Engine::end(FakeQp& qp, Send send, ibv_wc_status status) {
  const bool failed = status != IBV_WC_SUCCESS;
  if (failed) straggle(qp, send);
  if (failed || send.signaled) {
    Finished finished{completion_of(qp, send, status), {}};
    if (send.late > nanoseconds(0) && !failed)
      finished.due = std::chrono::steady_clock::now() + send.late;
    qp.finished.push_back(finished);
  }
  if (failed) fail(qp);
}

void Engine::deliver(FakeQp& qp, Time now) {
  while (!qp.finished.empty()) {
    const Finished& first = qp.finished.front();
    if (first.due > now && qp.now != IBV_QPS_ERR) {
      wake(qp, first.due);
      return;
    }
    complete(static_cast<FakeCq&>(*qp.send_cq), first.completion);
    qp.finished.pop_front();
  }
}

void Engine::complete(FakeCq& cq, const Completion& completion) {
  NicCounts& counts = completion.qp->nic->counts;
  const std::lock_guard lock(cq.mutex);
  if (cq.overrun) return;
  if (cq.entries.size() >= cq.depth) {
    cq.overrun = true;
    overrun_.push_back(&cq);
    complain("a completion queue of " + std::to_string(cq.depth) + " was overrun");
    ibv_async_event event{};
    event.element.cq = &cq;
    event.event_type = IBV_EVENT_CQ_ERR;
    raise(cq.context, event);
    return;
  }
  cq.entries.push_back(completion);
  cq.count.store(cq.entries.size(), std::memory_order_release);
  ++counts.completions;
  if (!cq.armed || cq.channel == nullptr || fake(cq.context).nic->spec.faults.silent) return;
  cq.armed = false;
  ++counts.events;
  static_cast<FakeChannel*>(cq.channel)->events.push(&cq);
}

void Engine::fail(FakeQp& qp) {
  if (qp.now == IBV_QPS_ERR || qp.now == IBV_QPS_RESET) return;
  qp.now = IBV_QPS_ERR;
  flush(qp);
  look_at_sender_to(qp);
}

void Engine::flush(FakeQp& qp) {
  deliver(qp, Time::max());
  for (const Send& send : std::exchange(qp.sends, {})) {
    straggle(qp, send);
    complete(static_cast<FakeCq&>(*qp.send_cq), completion_of(qp, send, IBV_WC_WR_FLUSH_ERR));
  }
  for (const Receive& receive : std::exchange(qp.receives, {}))
    complete(static_cast<FakeCq&>(*qp.recv_cq), completion_of(qp, receive, IBV_WC_WR_FLUSH_ERR));
}

}  // namespace weft::p2p::verbs::fake
