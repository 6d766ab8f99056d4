// Which queue pairs are each other's ends.
#include <algorithm>

#include "p2p/transport/verbs/fake/engine.hpp"

namespace weft::p2p::verbs::fake {
namespace {

const FakePort& port_of(const FakeQp& qp) {
  return qp.nic->ports[static_cast<std::size_t>(qp.attributes.port_num) - 1];
}

bool leads_to(const ibv_ah_attr& address, const FakePort& port) {
  if (!port.spec.ethernet) return address.dlid == port.lid;
  return std::any_of(port.spec.gids.begin(), port.spec.gids.end(), [&](const GidSpec& gid) {
    return std::equal(gid.raw.begin(), gid.raw.end(), address.grh.dgid.raw);
  });
}

// RoCE's two versions are different packets.
bool speak_alike(const FakeQp& a, const FakeQp& b) {
  if (port_of(a).spec.ethernet != port_of(b).spec.ethernet) return false;
  if (!port_of(a).spec.ethernet) return true;
  const auto type = [](const FakeQp& qp) {
    return port_of(qp).spec.gids[qp.attributes.ah_attr.grh.sgid_index].type;
  };
  return type(a) == type(b);
}

bool is_reachable(const FakeQp& qp) {
  return !qp.nic->isolated && !qp.nic->dead && port_of(qp).spec.up;
}

}  // namespace

void Engine::find_remote(FakeQp& qp) const {
  qp.remote = nullptr;
  for (const auto& nic : nics_)
    for (std::size_t i = 0; i < nic->ports.size(); ++i)
      if (leads_to(qp.attributes.ah_attr, nic->ports[i])) {
        qp.remote = nic.get();
        qp.remote_port = static_cast<std::uint8_t>(i + 1);
        return;
      }
}

FakeQp* Engine::partner_of(const FakeQp& qp) {
  if (qp.remote == nullptr) return nullptr;
  const auto found = qp.remote->queue_pairs.find(qp.attributes.dest_qp_num);
  return found != qp.remote->queue_pairs.end() ? found->second.get() : nullptr;
}

FakeQp* Engine::peer_of(const FakeQp& qp) {
  FakeQp* peer = partner_of(qp);
  if (peer == nullptr || (peer->now != IBV_QPS_RTR && peer->now != IBV_QPS_RTS)) return nullptr;
  const bool met = peer->remote == qp.nic && peer->remote_port == qp.attributes.port_num &&
                   qp.remote_port == peer->attributes.port_num &&
                   peer->attributes.dest_qp_num == qp.qp_num &&
                   peer->attributes.rq_psn == qp.attributes.sq_psn && speak_alike(qp, *peer);
  return met && is_reachable(qp) && is_reachable(*peer) ? peer : nullptr;
}

void Engine::reset(FakeQp& qp) {
  look_at_sender_to(qp);
  qp.now = IBV_QPS_RESET;
  qp.sends.clear();
  qp.receives.clear();
  qp.finished.clear();
  for (ibv_cq* queue : {qp.send_cq, qp.recv_cq}) {
    auto& cq = static_cast<FakeCq&>(*queue);
    const std::lock_guard lock(cq.mutex);
    cq.entries.erase(std::remove_if(cq.entries.begin(), cq.entries.end(),
                                    [&](const Completion& one) { return one.qp == &qp; }),
                     cq.entries.end());
    cq.count.store(cq.entries.size(), std::memory_order_release);
  }
  qp.posted = 0;
  qp.reclaimed = 0;
  qp.completions_due = 0;
  qp.receives_taken = 0;
  qp.attributes = {};
  qp.remote = nullptr;
}

}  // namespace weft::p2p::verbs::fake
