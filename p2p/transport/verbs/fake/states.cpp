#include "p2p/transport/verbs/fake/states.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace weft::p2p::verbs::fake {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  unsigned needed;
  unsigned allowed;
};

// As the kernel checks them for reliable connections.
constexpr std::array kTransitions = {
    Transition{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
               0},
    Transition{IBV_QPS_INIT, IBV_QPS_INIT, 0,
               IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR,
               IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
               IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS,
               IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC,
               IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    Transition{IBV_QPS_RTS, IBV_QPS_RTS, 0,
               IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

bool is_allowed(ibv_qp_state from, ibv_qp_state to, unsigned mask) {
  mask &= ~static_cast<unsigned>(IBV_QP_STATE);
  if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) return mask == 0;
  return std::any_of(kTransitions.begin(), kTransitions.end(), [&](const Transition& one) {
    return one.from == from && one.to == to && (mask & one.needed) == one.needed &&
           (mask & ~(one.needed | one.allowed)) == 0;
  });
}

bool has_port(const FakeNic& nic, std::uint8_t port) {
  return port >= 1 && port <= nic.ports.size();
}

// The port's rules for an address.
bool is_address(const FakePort& port, const ibv_ah_attr& address) {
  if (!port.spec.ethernet && address.is_global == 0) return address.dlid != 0;
  return address.is_global != 0 && address.grh.sgid_index < port.spec.gids.size();
}

constexpr std::uint32_t kLargest24Bits = 0xffffff;

bool are_valid(const FakeQp& qp, const ibv_qp_attr& attributes, unsigned mask) {
  const FakeNic& nic = *qp.nic;
  const std::uint8_t number =
      (mask & IBV_QP_PORT) != 0 ? attributes.port_num : qp.attributes.port_num;
  if ((mask & IBV_QP_PORT) != 0 && !has_port(nic, number)) return false;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attributes.pkey_index != 0) return false;
  if ((mask & IBV_QP_AV) != 0 && !is_address(nic.ports[number - 1U], attributes.ah_attr))
    return false;
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (attributes.path_mtu < IBV_MTU_256 || attributes.path_mtu > nic.ports[number - 1U].spec.mtu))
    return false;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attributes.max_dest_rd_atomic > nic.spec.max_reads)
    return false;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attributes.max_rd_atomic > nic.spec.max_reads)
    return false;
  if ((mask & IBV_QP_RQ_PSN) != 0 && attributes.rq_psn > kLargest24Bits) return false;
  if ((mask & IBV_QP_SQ_PSN) != 0 && attributes.sq_psn > kLargest24Bits) return false;
  return ((mask & IBV_QP_TIMEOUT) == 0 || attributes.timeout < 32) &&
         ((mask & IBV_QP_RETRY_CNT) == 0 || attributes.retry_cnt < 8) &&
         ((mask & IBV_QP_RNR_RETRY) == 0 || attributes.rnr_retry < 8);
}

}  // namespace

int take_attributes(FakeQp& qp, const ibv_qp_attr& attributes, unsigned mask) {
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes.qp_state : qp.now;
  if (!is_allowed(qp.now, to, mask) || !are_valid(qp, attributes, mask)) return EINVAL;
  const auto take = [&](unsigned bit, auto member) {
    if ((mask & bit) != 0) qp.attributes.*member = attributes.*member;
  };
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  return 0;
}

}  // namespace weft::p2p::verbs::fake
