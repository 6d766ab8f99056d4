#include "p2p/transport/verbs/fake/fake_connection_manager.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/verbs/fake/states.hpp"

namespace weft::p2p::verbs::fake {
namespace {

constexpr std::uint32_t kAllPsns = 0xffffff;
constexpr int kNobodyListens = 8;
constexpr int kNotWanted = 28;

FakeId& of(rdma_cm_id* id) noexcept { return static_cast<FakeId&>(*id); }

FakeId::Address address_of(const sockaddr* address) noexcept {
  const auto* in = reinterpret_cast<const sockaddr_in*>(address);  // the port is where IPv6 has it
  return {ip_address_of(*address), ntohs(in->sin_port)};
}

/// Number of the port that has it as a GID, and the GID's index; 0: none has.
std::pair<std::uint8_t, std::uint8_t> port_at(const FakeNic& nic, const IpAddress& ip) {
  for (std::size_t i = 0; i < nic.ports.size(); ++i) {
    const auto& gids = nic.ports[i].spec.gids;
    for (std::size_t g = 0; g < gids.size(); ++g)
      if (std::memcmp(gids[g].raw.data(), ip.data(), ip.size()) == 0)
        return {static_cast<std::uint8_t>(i + 1), static_cast<std::uint8_t>(g)};
  }
  return {0, 0};
}

void tell(FakeId* id, rdma_cm_event_type type, int status = 0,
          const rdma_conn_param* said = nullptr, FakeId* listener = nullptr) {
  if (id == nullptr) return;
  auto* event = new FakeCmEvent{};  // all zeros, as the library has it
  event->event = type;
  event->status = status;
  event->id = id;
  event->listen_id = listener;
  if (said != nullptr) {
    std::memcpy(event->said.data(), said->private_data,
                std::min<std::size_t>(said->private_data_len, event->said.size()));
    event->param.conn = *said;
    event->param.conn.private_data = event->said.data();
    event->param.conn.private_data_len = static_cast<std::uint8_t>(event->said.size());
  }
  static_cast<FakeCmChannel*>(id->channel)->events.push(event);
}

FakeId* new_id(Engine& engine, rdma_event_channel* channel, void* context) {
  auto* id = new FakeId;
  id->channel = channel;
  id->context = context;
  id->ps = RDMA_PS_TCP;
  id->psn = static_cast<std::uint32_t>(engine.random()) & kAllPsns;
  ++engine.exchange().ids;
  return id;
}

/// The peer is told.
void end(FakeCmExchange& exchange, FakeId& id) {
  if (id.peer != nullptr) {
    id.peer->peer = nullptr;
    tell(id.peer, id.is_up ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED,
         id.is_up ? 0 : kNotWanted);
  }
  delete &id;
  --exchange.ids;
}

void fill_in(const FakeId& id, ibv_qp_attr& attributes, unsigned& mask) {
  const auto [port, gid] = port_at(*id.nic, id.own.first);
  mask = IBV_QP_STATE;
  if (attributes.qp_state == IBV_QPS_INIT) {
    attributes.port_num = port;
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  } else if (attributes.qp_state == IBV_QPS_RTR) {
    attributes.path_mtu = id.nic->ports[port - 1U].spec.mtu;
    attributes.dest_qp_num = id.peer->queue_pair;
    attributes.rq_psn = id.peer->psn;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = port;
    attributes.ah_attr.grh.sgid_index = gid;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, id.remote.first.data(), id.remote.first.size());
    attributes.max_dest_rd_atomic = 1;
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  } else {
    attributes.sq_psn = id.psn;
    attributes.max_rd_atomic = 1;
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
            IBV_QP_MAX_QP_RD_ATOMIC;
  }
}

}  // namespace

rdma_event_channel* FakeConnectionManager::create_event_channel() noexcept {
  auto channel = std::make_unique<FakeCmChannel>();
  channel->fd = channel->events.fd();
  const auto lock = engine_->lock();
  ++engine_->exchange().channels;
  return channel.release();
}

int FakeConnectionManager::destroy_event_channel(rdma_event_channel* channel) noexcept {
  auto* gone = static_cast<FakeCmChannel*>(channel);
  gone->events.forget([](FakeCmEvent* unread) {
    delete unread;
    return true;
  });
  delete gone;
  const auto lock = engine_->lock();
  --engine_->exchange().channels;
  return 0;
}

int FakeConnectionManager::get_event(rdma_event_channel* channel, rdma_cm_event** event) noexcept {
  FakeCmEvent* next = nullptr;
  const int error =
      static_cast<FakeCmChannel*>(channel)->events.pop(next, [](FakeCmEvent* /*taken*/) {});
  *event = next;
  return error;
}

void FakeConnectionManager::ack_event(rdma_cm_event* event) noexcept {
  delete static_cast<FakeCmEvent*>(event);
}

rdma_cm_id* FakeConnectionManager::create_id(rdma_event_channel* channel, void* context) noexcept {
  const auto lock = engine_->lock();
  return new_id(*engine_, channel, context);
}

int FakeConnectionManager::destroy_id(rdma_cm_id* id) noexcept {
  const auto lock = engine_->lock();
  FakeId& gone = of(id);
  FakeCmExchange& exchange = engine_->exchange();
  const auto listener = exchange.listeners.find(gone.own);
  if (listener != exchange.listeners.end() && listener->second == &gone)
    exchange.listeners.erase(listener);
  std::vector<FakeId*> never_taken;
  static_cast<FakeCmChannel*>(gone.channel)->events.forget([&](FakeCmEvent* event) {
    if (event->id != &gone && event->listen_id != &gone) return false;
    if (event->listen_id == &gone) never_taken.push_back(&of(event->id));
    delete event;
    return true;
  });
  never_taken.push_back(&gone);
  for (FakeId* one : never_taken) end(exchange, *one);
  return 0;
}

int FakeConnectionManager::bind(rdma_cm_id* id, const sockaddr* address) noexcept {
  const auto lock = engine_->lock();
  FakeId& bound = of(id);
  bound.own = address_of(address);
  for (FakeNic* nic : nics_)
    if (const auto port = port_at(*nic, bound.own.first).first; port != 0) {
      bound.nic = nic;
      bound.verbs = &nic->of_manager;
      bound.port_num = port;
      return 0;
    }
  return ENODEV;
}

int FakeConnectionManager::listen(rdma_cm_id* id, int /*backlog*/) noexcept {
  const auto lock = engine_->lock();
  FakeCmExchange& exchange = engine_->exchange();
  of(id).own.second = exchange.next_port++;
  exchange.listeners[of(id).own] = &of(id);
  return 0;
}

std::uint16_t FakeConnectionManager::port(rdma_cm_id* id) noexcept { return of(id).own.second; }

int FakeConnectionManager::resolve_address(rdma_cm_id* id, const sockaddr* from, const sockaddr* to,
                                           int /*timeout_ms*/) noexcept {
  if (const int error = bind(id, from)) return error;
  const auto lock = engine_->lock();
  of(id).remote = address_of(to);
  const auto& nics = engine_->nics();
  const bool is_there = std::any_of(nics.begin(), nics.end(), [&](const auto& nic) {
    return port_at(*nic, of(id).remote.first).first != 0 && !nic->isolated;
  });
  tell(&of(id), is_there ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
       is_there ? 0 : -EHOSTUNREACH);
  return 0;
}

int FakeConnectionManager::resolve_route(rdma_cm_id* id, int /*timeout_ms*/) noexcept {
  const auto lock = engine_->lock();
  tell(&of(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int FakeConnectionManager::queue_pair_attributes(rdma_cm_id* id, ibv_qp_attr* attributes,
                                                 int* mask) noexcept {
  const auto lock = engine_->lock();
  if (of(id).peer == nullptr) return EINVAL;
  unsigned bits = 0;
  fill_in(of(id), *attributes, bits);
  *mask = static_cast<int>(bits);
  return 0;
}

int FakeConnectionManager::connect(rdma_cm_id* id, rdma_conn_param* parameters) noexcept {
  const auto lock = engine_->lock();
  FakeId& client = of(id);
  client.queue_pair = parameters->qp_num;
  const FakeCmExchange& exchange = engine_->exchange();
  const auto found = exchange.listeners.find(client.remote);
  if (found == exchange.listeners.end()) {
    tell(&client, RDMA_CM_EVENT_REJECTED, kNobodyListens);
    return 0;
  }
  FakeId& listener = *found->second;
  FakeId* server = new_id(*engine_, listener.channel, listener.context);
  server->nic = listener.nic;
  server->verbs = listener.verbs;
  server->port_num = listener.port_num;
  server->own = listener.own;
  server->remote = client.own;
  server->peer = &client;
  client.peer = server;
  tell(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0, parameters, &listener);
  return 0;
}

int FakeConnectionManager::accept(rdma_cm_id* id, rdma_conn_param* parameters) noexcept {
  const auto lock = engine_->lock();
  FakeId& server = of(id);
  if (server.peer == nullptr) return ECONNRESET;
  server.queue_pair = parameters->qp_num;
  if (!server.nic->spec.iwarp) {
    tell(server.peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, parameters);
    return 0;
  }
  for (FakeId* end : {&server, server.peer}) {
    FakeQp& qp = *end->nic->queue_pairs.at(end->queue_pair);
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
      ibv_qp_attr attributes{};
      attributes.qp_state = state;
      unsigned mask = 0;
      fill_in(*end, attributes, mask);
      if (const int error = take_attributes(qp, attributes, mask)) return error;
      qp.now = qp.state = state;
    }
    engine_->find_remote(qp);
    end->is_up = true;
  }
  tell(server.peer, RDMA_CM_EVENT_ESTABLISHED, 0, parameters);
  tell(&server, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

int FakeConnectionManager::reject(rdma_cm_id* id) noexcept {
  const auto lock = engine_->lock();
  FakeId& server = of(id);
  if (server.peer != nullptr) server.peer->peer = nullptr;
  tell(std::exchange(server.peer, nullptr), RDMA_CM_EVENT_REJECTED, kNotWanted);
  return 0;
}

int FakeConnectionManager::establish(rdma_cm_id* id) noexcept {
  const auto lock = engine_->lock();
  FakeId& client = of(id);
  if (client.peer == nullptr) return ECONNRESET;
  client.is_up = client.peer->is_up = true;
  tell(client.peer, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

const char* FakeConnectionManager::event_text(rdma_cm_event_type type) noexcept {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "RDMA_CM_EVENT_ADDR_ERROR";
    case RDMA_CM_EVENT_REJECTED:
      return "RDMA_CM_EVENT_REJECTED";
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return "RDMA_CM_EVENT_CONNECT_RESPONSE";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "RDMA_CM_EVENT_DISCONNECTED";
    default:
      return "another event";
  }
}

}  // namespace weft::p2p::verbs::fake
