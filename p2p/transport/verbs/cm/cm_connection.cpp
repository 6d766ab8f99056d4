#include "p2p/transport/verbs/cm/cm_connection.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/os/system_error.hpp"

namespace weft::p2p::verbs {
namespace {

/// The InfiniBand connection manager's numbers, as REJECTED has them.
std::string rejection(int status) {
  switch (status) {
    case 8:
      return "no process listens there any more";
    case 10:
      return "the peer's device holds it for a connection from before";
    case 28:
      return "the peer does not know the caller";
    default:
      return status < 0 ? os::words(-status) : fmt::format("reason {}", status);
  }
}

bool same(const Token& a, const Token& b) noexcept {
  return ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

void CmConnection::require(int error, const char* function) const {
  if (error == 0) return;
  throw Error(ErrorDetail{.code = Code::unreachable,
                          .operation = "connect",
                          .message = fmt::format("{}: {} failed while {}: {}", device_->name(),
                                                 function, doing(), os::words(error)),
                          .hint = "do both ends' addresses belong to networks that reach each "
                                  "other? `rping` shows it without weft"});
}

void CmConnection::require_own_port() const {
  const rdma_cm_id& id = *id_.get();
  const std::string name =
      id.verbs == nullptr
          ? "no device"
          : fmt::format("{}:{}", device_->verbs().device_name(id.verbs->device), id.port_num);
  if (name == device_->name()) return;
  throw Error(
      ErrorDetail{.code = Code::unreachable,
                  .operation = "connect",
                  .message = fmt::format("the way to {} leads by {}, not by {}",
                                         text(peer_.cm_ip, peer_.cm_port), name, device_->name()),
                  .hint = "look at `ip route get`, or name the device by WEFT_NIC"});
}

void CmConnection::call(rdma_event_channel* events, void* context, const IpAddress& from,
                        int timeout_ms) {
  step_ = Step::address;
  timeout_ms_ = timeout_ms;
  id_ = ConnectionId(*manager_, manager_->create_id(events, context));
  if (!id_) require(errno, "rdma_create_id");
  const SocketAddress own = socket_address(from, 0);
  const SocketAddress to = socket_address(peer_.cm_ip, peer_.cm_port);
  require(manager_->resolve_address(id_.get(), own.get(), to.get(), timeout_ms_),
          "rdma_resolve_addr");
}

void CmConnection::on_request(ConnectionId id, void* context) {
  id_ = std::move(id);
  id_->context = context;
  if (knows_) answer();
}

void CmConnection::answer() {
  step_ = Step::answer;
  // An iWARP device readies the queue pair by itself, here and at the caller's end.
  if (!device_->is_iwarp()) ready();
  rdma_conn_param parameters = this->parameters();
  require(manager_->accept(id_.get(), &parameters), "rdma_accept");
}

CmConnection::Progress CmConnection::handle(const rdma_cm_event& event,
                                            const Credentials& expected) {
  const auto answer_is_the_peers = [&] {
    const auto said = Credentials::read(event.param.conn);
    return said && said->rank == expected.rank && said->index == expected.index &&
           same(said->token, expected.token);
  };
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (step_ != Step::address) return Progress::failed;
      require_own_port();
      step_ = Step::route;
      require(manager_->resolve_route(id_.get(), timeout_ms_), "rdma_resolve_route");
      return Progress::under_way;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (step_ != Step::route) return Progress::failed;
      connect();
      return Progress::under_way;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (step_ != Step::call || !answer_is_the_peers()) return Progress::failed;
      ready();
      require(manager_->establish(id_.get()), "rdma_establish");
      step_ = Step::up;
      return Progress::up;
    case RDMA_CM_EVENT_ESTABLISHED:
      // iWARP has the answer in it.
      if (step_ == Step::call && !answer_is_the_peers()) return Progress::failed;
      if (step_ != Step::call && step_ != Step::answer) return Progress::under_way;
      step_ = Step::up;
      return Progress::up;
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return Progress::under_way;
    default:
      return Progress::failed;
  }
}

void CmConnection::connect() {
  step_ = Step::call;
  rdma_conn_param parameters = this->parameters();
  require(manager_->connect(id_.get(), &parameters), "rdma_connect");
}

rdma_conn_param CmConnection::parameters() const noexcept {
  rdma_conn_param parameters{};
  parameters.private_data = &own_;
  parameters.private_data_len = sizeof own_;
  parameters.responder_resources = parameters.initiator_depth = device_->reads_with(peer_);
  parameters.flow_control = 1;
  parameters.retry_count = Device::kResends;
  parameters.rnr_retry_count = Device::kNotReadyRetries;
  parameters.qp_num = pair_->qp_num;
  return parameters;
}

void CmConnection::ready() {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) to_state(state);
}

void CmConnection::to_state(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  require(manager_->queue_pair_attributes(id_.get(), &attributes, &mask), "rdma_init_qp_attr");
  device_->to_state(pair_, attributes, mask, peer_);
}

std::string CmConnection::doing() const {
  const auto there = [this] { return text(peer_.cm_ip, peer_.cm_port); };
  switch (step_) {
    case Step::address:
      return "looking for " + there();
    case Step::route:
      return "finding the route to " + there();
    case Step::call:
      return "calling " + there();
    case Step::answer:
      return "answering the peer's call";
    case Step::up:
      return "connected";
    case Step::waiting:
      break;
  }
  return is_called() ? "called by the peer, but not told of its queue pairs yet"
                     : "waiting for the peer's call";
}

std::string CmConnection::why(const rdma_cm_event& event) const {
  const char* name = manager_->event_text(event.event);
  if (event.event == RDMA_CM_EVENT_REJECTED)
    return fmt::format("{} while {}: {}", name, doing(), rejection(event.status));
  if (event.event == RDMA_CM_EVENT_CONNECT_RESPONSE || event.event == RDMA_CM_EVENT_ESTABLISHED)
    return fmt::format("{} while {}: another process has answered", name, doing());
  return fmt::format("{} while {}{}", name, doing(),
                     event.status == 0 ? "" : ": " + os::words(std::abs(event.status)));
}

}  // namespace weft::p2p::verbs
