#include "p2p/transport/verbs/fake/engine.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

namespace weft::p2p::verbs::fake {
namespace {

std::array<std::uint8_t, 16> link_local(std::uint16_t number) {
  return {0xfe,
          0x80,
          0,
          0,
          0,
          0,
          0,
          0,
          2,
          0,
          0,
          0xff,
          0xfe,
          0,
          static_cast<std::uint8_t>(number >> 8U),
          static_cast<std::uint8_t>(number)};
}

std::array<std::uint8_t, 16> ipv4(std::uint16_t number) {
  return {0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0xff,
          0xff,
          10,
          0,
          static_cast<std::uint8_t>(number >> 8U),
          static_cast<std::uint8_t>(number)};
}

std::vector<GidSpec> usual_gids(const PortSpec& port, std::uint16_t number) {
  if (!port.ethernet) return {{link_local(number), IBV_GID_TYPE_IB}};
  return {{link_local(number), IBV_GID_TYPE_ROCE_V1},
          {link_local(number), IBV_GID_TYPE_ROCE_V2},
          {ipv4(number), IBV_GID_TYPE_ROCE_V1},
          {ipv4(number), IBV_GID_TYPE_ROCE_V2}};
}

}  // namespace

Engine::Engine(const NetworkOptions& options)
    : options_(options), random_(options.seed), worker_([this] { work(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  worker_.join();
}

FakeNic& Engine::add_nic(int rank, NicSpec spec) {
  auto nic = std::make_unique<FakeNic>(rank, std::move(spec));
  nic->seed = random_.next();
  nic->device.nic = nic.get();
  nic->of_manager.device = &nic->device;
  nic->device.node_type = nic->spec.iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
  nic->device.transport_type = nic->spec.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  std::snprintf(nic->device.name, sizeof nic->device.name, "%s", nic->spec.name.c_str());
  for (const PortSpec& port : nic->spec.ports) {
    std::size_t ports = nic->ports.size() + 1;
    for (const auto& other : nics_) ports += other->ports.size();
    const auto number = static_cast<std::uint16_t>(ports);
    nic->ports.push_back({port, port.ethernet ? std::uint16_t{0} : number});
    if (port.gids.empty()) nic->ports.back().spec.gids = usual_gids(port, number);
  }
  return *nics_.emplace_back(std::move(nic));
}

int Engine::refused(FakeNic& nic, VerbsCall call) {
  const std::uint64_t nth = ++nic.counts.calls[static_cast<std::size_t>(call)];
  if (nic.dead) return EIO;
  for (const Refusal& refusal : nic.spec.faults.refusals)
    if (refusal.call == call && refusal.nth == nth) return refusal.error;
  return 0;
}

void Engine::look_at(FakeQp& qp) {
  if (std::exchange(qp.queued, true)) return;
  ready_.push_back(&qp);
}

void Engine::look_at_sender_to(FakeQp& qp) {
  if (FakeQp* peer = partner_of(qp); peer != nullptr) look_at(*peer);
}

void Engine::look_at_all() {
  for (const auto& nic : nics_)
    for (const auto& [number, qp] : nic->queue_pairs) look_at(*qp);
}

void Engine::run() {
  while (!ready_.empty() || !overrun_.empty()) {
    for (const FakeCq* cq : std::exchange(overrun_, {})) fail_users_of(*cq);
    if (ready_.empty()) continue;
    FakeQp& qp = *ready_.front();
    ready_.pop_front();
    qp.queued = false;
    advance(qp);
  }
}

void Engine::fail_users_of(const FakeCq& cq) {
  for (const auto& [number, qp] : static_cast<FakeContext*>(cq.context)->nic->queue_pairs)
    if (qp->send_cq == &cq || qp->recv_cq == &cq) fail(*qp);
}

void Engine::at(Time when, std::function<void()> act) {
  const auto place = timers_.emplace(when, std::move(act));
  if (place == timers_.begin()) changed_.notify_one();
}

void Engine::wake(FakeQp& qp, Time when) {
  if (when >= qp.wakes) return;
  qp.wakes = when;
  at(when, [this, when, weak = qp.weak_from_this()] {
    const std::shared_ptr<FakeQp> strong = weak.lock();
    if (strong == nullptr || strong->wakes != when) return;
    strong->wakes = Time::max();
    look_at(*strong);
  });
}

void Engine::work() {
  pthread_setname_np(pthread_self(), "weft-fake-nic");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (timers_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Time first = timers_.begin()->first;
    if (std::chrono::steady_clock::now() < first) {
      changed_.wait_until(lock, first);
      continue;
    }
    auto due = timers_.extract(timers_.begin());
    due.mapped()();
    run();
  }
}

void Engine::raise(ibv_context* context, const ibv_async_event& event) {
  static_cast<FakeContext*>(context)->events.push(event);
}

void Engine::raise(FakeNic& nic, const ibv_async_event& event) {
  for (const auto& context : nic.contexts) context->events.push(event);
}

}  // namespace weft::p2p::verbs::fake
