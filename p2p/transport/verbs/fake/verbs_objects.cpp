// Memory and completions.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "p2p/transport/verbs/fake/fake_verbs.hpp"

namespace weft::p2p::verbs::fake {
namespace {

FakeContext& fake(ibv_context* context) { return static_cast<FakeContext&>(*context); }
FakePd& fake(ibv_pd* pd) { return static_cast<FakePd&>(*pd); }
FakeCq& fake(ibv_cq* cq) { return static_cast<FakeCq&>(*cq); }
FakeChannel& fake(ibv_comp_channel* channel) { return static_cast<FakeChannel&>(*channel); }

/// Whether the kernel can read there, as pinning needs: not in a GPU's memory.
bool is_readable(void* address) {
  return address == nullptr || ::syscall(SYS_faccessat, AT_FDCWD, address, F_OK) == 0 ||
         errno != EFAULT;
}

template <typename T>
void erase(std::vector<std::unique_ptr<T>>& from, const T& object) {
  from.erase(std::find_if(from.begin(), from.end(),
                          [&](const auto& one) { return one.get() == &object; }));
}

}  // namespace

ibv_pd* FakeVerbs::alloc_pd(ibv_context* context) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(context).nic;
  errno = engine_->refused(nic, VerbsCall::alloc_pd);
  if (errno != 0) return nullptr;
  auto& pd = nic.domains.emplace_back(std::make_unique<FakePd>());
  pd->context = context;
  ++fake(context).users;
  return pd.get();
}

int FakeVerbs::dealloc_pd(ibv_pd* pd) noexcept {
  const auto lock = engine_->lock();
  if (fake(pd).users > 0)
    return busy("a protection domain was deallocated while regions or queue pairs were in it");
  FakeContext& context = fake(pd->context);
  --context.users;
  erase(context.nic->domains, fake(pd));
  return 0;
}

ibv_mr* FakeVerbs::reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) noexcept {
  const auto lock = engine_->lock();
  const bool is_on_gpu = engine_->gpus() != nullptr &&
                         engine_->gpus()->has(reinterpret_cast<std::uint64_t>(address), bytes);
  const bool reaches = is_on_gpu ? fake(pd->context).nic->spec.peermem : is_readable(address);
  return make_mr(pd, address, bytes, access, reaches ? 0 : EFAULT);
}

ibv_mr* FakeVerbs::reg_dmabuf_mr(ibv_pd* pd, const DmaBuf& memory, int access) noexcept {
  const auto lock = engine_->lock();
  const bool can = engine_->gpus() != nullptr && fake(pd->context).nic->spec.dma_buf;
  int refusal = can ? 0 : EOPNOTSUPP;
  if (can && !engine_->gpus()->is_dma_buf(memory.fd, memory.offset, memory.address))
    refusal = EINVAL;
  return make_mr(pd, reinterpret_cast<void*>(memory.address), memory.bytes, access, refusal);
}

ibv_mr* FakeVerbs::make_mr(ibv_pd* pd, void* address, std::size_t bytes, int access, int refusal) {
  FakeNic& nic = *fake(pd->context).nic;
  const auto flags = static_cast<unsigned>(access);
  errno = engine_->refused(nic, VerbsCall::reg_mr);
  if (errno == 0) errno = refusal;
  if (errno != 0) return nullptr;
  const bool writable = (flags & IBV_ACCESS_LOCAL_WRITE) != 0;
  const bool writable_by_peer = (flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (address == nullptr || bytes == 0 || (writable_by_peer && !writable)) errno = EINVAL;
  if (bytes > nic.spec.max_region_bytes || bytes > nic.spec.max_registered - nic.registered ||
      nic.regions.size() >= static_cast<std::size_t>(nic.spec.max_regions))
    errno = ENOMEM;
  if (errno != 0) return nullptr;
  auto mr = std::make_unique<FakeMr>();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  mr->access = access;
  // A key that is taken for another, or for another rank's, must not fit.
  do {
    mr->lkey = static_cast<std::uint32_t>(engine_->random());
    mr->rkey = static_cast<std::uint32_t>(engine_->random());
  } while (nic.regions.count(mr->lkey) != 0 || nic.remote_keys.count(mr->rkey) != 0);
  nic.registered += bytes;
  ++fake(pd).users;
  nic.remote_keys[mr->rkey] = mr.get();
  return (nic.regions[mr->lkey] = std::move(mr)).get();
}

int FakeVerbs::dereg_mr(ibv_mr* mr) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(mr->context).nic;
  nic.registered -= mr->length;
  --fake(mr->pd).users;
  nic.remote_keys.erase(mr->rkey);
  nic.regions.erase(mr->lkey);
  return 0;
}

ibv_comp_channel* FakeVerbs::create_comp_channel(ibv_context* context) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(context).nic;
  errno = engine_->refused(nic, VerbsCall::create_comp_channel);
  if (errno != 0) return nullptr;
  auto channel = std::make_unique<FakeChannel>();
  if (channel->events.fd() < 0) return nullptr;
  channel->context = context;
  channel->fd = channel->events.fd();
  ++fake(context).users;
  return nic.channels.emplace_back(std::move(channel)).get();
}

int FakeVerbs::destroy_comp_channel(ibv_comp_channel* channel) noexcept {
  const auto lock = engine_->lock();
  if (fake(channel).users > 0)
    return busy("a completion channel was destroyed while completion queues used it");
  FakeContext& context = fake(channel->context);
  --context.users;
  erase(context.nic->channels, fake(channel));
  return 0;
}

ibv_cq* FakeVerbs::create_cq(ibv_context* context, int depth, ibv_comp_channel* channel) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(context).nic;
  errno = engine_->refused(nic, VerbsCall::create_cq);
  if (depth < 1 || depth > nic.spec.max_completions) errno = EINVAL;
  if (nic.rings.size() >= static_cast<std::size_t>(nic.spec.max_completion_queues)) errno = ENOMEM;
  if (errno != 0) return nullptr;
  auto& cq = nic.rings.emplace_back(std::make_unique<FakeCq>());
  cq->context = context;
  cq->channel = channel;
  cq->cqe = depth;
  cq->depth = static_cast<std::size_t>(depth);
  if (channel != nullptr) ++fake(channel).users;
  ++fake(context).users;
  return cq.get();
}

int FakeVerbs::destroy_cq(ibv_cq* cq) noexcept {
  const auto lock = engine_->lock();
  if (fake(cq).users > 0) return busy("a completion queue was destroyed while queue pairs used it");
  FakeContext& context = fake(cq->context);
  context.events.forget([&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
  });
  if (cq->channel != nullptr)
    fake(cq->channel).events.forget([&](const FakeCq* of) { return of == cq; });
  // The library would wait without end.
  if (fake(cq).unacknowledged != 0)
    return busy("a completion queue was destroyed before its events were acknowledged");
  if (cq->channel != nullptr) --fake(cq->channel).users;
  --context.users;
  erase(context.nic->rings, fake(cq));
  return 0;
}

int FakeVerbs::poll_cq(ibv_cq* cq, int count, ibv_wc* completions) noexcept {
  FakeCq& queue = fake(cq);
  if (queue.count.load(std::memory_order_acquire) == 0) return 0;
  const std::lock_guard lock(queue.mutex);
  int taken = 0;
  for (; taken < count && !queue.entries.empty(); ++taken) {
    const Completion& first = queue.entries.front();
    completions[taken] = first.wc;
    if (first.receive)
      --first.qp->receives_taken;
    else
      first.qp->reclaimed = first.posted;
    if (first.signaled) --first.qp->completions_due;
    queue.entries.pop_front();
  }
  queue.count.store(queue.entries.size(), std::memory_order_release);
  return taken;
}

int FakeVerbs::req_notify_cq(ibv_cq* cq) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(cq->context).nic;
  if (const int error = engine_->refused(nic, VerbsCall::req_notify_cq); error != 0) return error;
  const std::lock_guard queue_lock(fake(cq).mutex);
  // Completions that are in the queue already raise no event.
  fake(cq).armed = true;
  Random chance(engine_->random());
  if (cq->channel != nullptr && chance.chance(nic.spec.faults.spurious)) {
    fake(cq).armed = false;
    ++nic.counts.events;
    fake(cq->channel).events.push(&fake(cq));
  }
  return 0;
}

int FakeVerbs::get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) noexcept {
  FakeCq* which = nullptr;
  const int error = fake(channel).events.pop(which, [](FakeCq* taken) { ++taken->unacknowledged; });
  if (error == 0) *cq = which;
  return error;
}

void FakeVerbs::ack_cq_events(ibv_cq* cq, unsigned count) noexcept {
  fake(cq).unacknowledged -= count;
}

}  // namespace weft::p2p::verbs::fake
