// How a queue pair gets from one state to the next.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/os/system_error.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/device/gid_choice.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::uint8_t kHopLimit = 64;
/// A sender that finds no receive posted tries again after 0.64 ms (code 12), and six times. The
/// next number, 7, means without end.
constexpr std::uint8_t kNotReadyTimer = 12;
static_assert(Device::kNotReadyRetries < 7);
constexpr unsigned kAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::size_t kSubnetPrefix = 8;

bool same_subnet(const GidBytes& a, const GidBytes& b) noexcept {
  return std::memcmp(a.data(), b.data(), kSubnetPrefix) == 0;
}

std::string hint_of(int error, const std::string& peer_gid) {
  switch (error) {
    case EINVAL:
      return "a setting does not suit the port: look at WEFT_IB_GID, WEFT_IB_MTU, WEFT_IB_PKEY and "
             "WEFT_IB_SL on both ends";
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return fmt::format(
          "no route to GID {}: does `ping` reach it from this port's interface, and "
          "is its neighbour entry resolved?",
          peer_gid);
    case ENOMEM:
      return "the device has no room for another connection: lower WEFT_QPS_PER_PEER or "
             "WEFT_MESH_EAGER";
    case ENODEV:
    case EIO:
      return "the device is gone or broken: see the kernel's log";
    case EOPNOTSUPP:
      return "the device does not have reliable connections of this sort; for iWARP, set "
             "WEFT_CONNECT=cm";
    default:
      return "see the kernel's log";
  }
}

}  // namespace

void Device::modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask, const char* transition,
                    const std::string& peer) const {
  const int error = verbs_->modify_qp(qp, &attributes, mask);
  if (error == 0) return;
  throw Error(ErrorDetail{
      .code = Code::system,
      .operation = "connect",
      .message =
          fmt::format("ibv_modify_qp of queue pair {} of {} from {}{}: {}", qp->qp_num, name_,
                      transition, peer.empty() ? "" : " for the peer " + peer, os::words(error)),
      .hint = hint_of(error, peer)});
}

void Device::to_reset(ibv_qp* qp) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  modify(qp, attributes, IBV_QP_STATE, "ERROR to RESET", {});
}

void Device::to_init(ibv_qp* qp) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = options_.pkey_index;
  attributes.port_num = port_;
  attributes.qp_access_flags = kAccess;
  modify(qp, attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         "RESET to INIT", {});
}

void Device::to_ready(ibv_qp* qp, const VerbsAddress& peer, std::uint32_t number,
                      std::uint32_t receive_psn, std::uint32_t send_psn) const {
  const std::string peer_gid = gid_text(peer.gid);
  const std::uint8_t reads = reads_with(peer);
  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = static_cast<ibv_mtu>(std::min(address_.mtu, peer.mtu));
  receive.dest_qp_num = number;
  receive.rq_psn = receive_psn;
  receive.max_dest_rd_atomic = reads;
  receive.min_rnr_timer = kNotReadyTimer;
  ibv_ah_attr& route = receive.ah_attr;
  route.port_num = port_;
  route.sl = options_.service_level;
  const bool ethernet = address_.link_layer == IBV_LINK_LAYER_ETHERNET;
  if (!ethernet) route.dlid = peer.lid;
  if (ethernet || needs_global_route_ || !same_subnet(address_.gid, peer.gid)) {
    route.is_global = 1;
    std::memcpy(route.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    route.grh.sgid_index = gid_index_;
    route.grh.hop_limit = kHopLimit;
    route.grh.traffic_class = options_.traffic_class;
  }
  modify(qp, receive,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "INIT to RTR", peer_gid);

  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.sq_psn = send_psn;
  send.timeout = options_.timeout;
  send.retry_cnt = kResends;
  send.rnr_retry = kNotReadyRetries;
  send.max_rd_atomic = reads;
  modify(qp, send,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTR to RTS", peer_gid);
}

void Device::to_state(ibv_qp* qp, ibv_qp_attr told, int mask, const VerbsAddress& peer) const {
  const char* transition = "RTR to RTS";
  told.qp_access_flags = kAccess;
  if (told.qp_state == IBV_QPS_INIT) transition = "INIT to INIT";
  if (told.qp_state == IBV_QPS_RTR) {
    transition = "INIT to RTR";
    const auto agreed = static_cast<ibv_mtu>(std::min(address_.mtu, peer.mtu));
    told.path_mtu = std::min(told.path_mtu, agreed);
    told.min_rnr_timer = kNotReadyTimer;
    if (options_.service_level != 0) told.ah_attr.sl = options_.service_level;
    if (options_.traffic_class != 0) told.ah_attr.grh.traffic_class = options_.traffic_class;
  }
  told.timeout = options_.timeout;
  told.retry_cnt = kResends;
  told.rnr_retry = kNotReadyRetries;
  told.max_rd_atomic = told.max_dest_rd_atomic = reads_with(peer);
  modify(qp, told, mask, transition, gid_text(peer.gid));
}

std::uint8_t Device::reads_with(const VerbsAddress& peer) const noexcept {
  return std::max<std::uint8_t>(1, std::min(limits_.max_reads, peer.reads));
}

void Device::to_error(ibv_qp* qp) const noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  if (const int error = verbs_->modify_qp(qp, &attributes, IBV_QP_STATE))
    log_.warn(Subsystem::path, "ibv_modify_qp of queue pair {} of {} to ERROR: {}", qp->qp_num,
              name_, os::words(error));
}

}  // namespace weft::p2p::verbs
