#include "fake_rig.hpp"

#include <fcntl.h>

#include <cstring>
#include <thread>
#include <utility>

namespace weft::p2p::verbs::fake {
namespace {

using std::chrono::steady_clock;

ibv_context* open_first(Verbs& verbs) {
  int count = 0;
  ibv_device** list = verbs.device_list(&count);
  ibv_context* context = verbs.open_device(list[0]);
  verbs.free_device_list(list);
  return context;
}

}  // namespace

Side::Side(std::shared_ptr<Verbs> library, int access)
    : verbs(std::move(library)),
      memory(64 << 10),
      context(*verbs, open_first(*verbs)),
      domain(*verbs, verbs->alloc_pd(context.get())),
      region(*verbs, verbs->reg_mr(domain.get(), memory.data(), memory.size(), access)),
      channel(*verbs, verbs->create_comp_channel(context.get())),
      queue(*verbs, verbs->create_cq(context.get(), 256, channel.get())) {
  for (const int fd : {context->async_fd, channel->fd}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
}

std::uint64_t Side::address(std::size_t offset) const {
  return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
}

ibv_sge Side::sge(std::size_t offset, std::uint32_t length) const {
  return {address(offset), length, region ? region->lkey : 0};
}

std::optional<ibv_wc> Side::poll(std::chrono::milliseconds wait) {
  const auto end = steady_clock::now() + wait;
  ibv_wc wc{};
  do {
    if (verbs->poll_cq(queue.get(), 1, &wc) == 1) return wc;
    std::this_thread::yield();
  } while (steady_clock::now() < end);
  return std::nullopt;
}

std::optional<ibv_async_event> Side::event() {
  ibv_async_event event{};
  if (verbs->get_async_event(context.get(), &event) != 0) return std::nullopt;
  verbs->ack_async_event(&event);
  return event;
}

Pair::Pair(Side& at, int depth) : side(at) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = side.queue.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = static_cast<std::uint32_t>(depth);
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 4;
  attributes.cap.max_inline_data = 64;
  qp = {*side.verbs, side.verbs->create_qp(side.domain.get(), &attributes)};
}

void Pair::to_init(unsigned access) const {
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = access;
  ASSERT_EQ(
      side.verbs->modify_qp(qp.get(), &init,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      0);
}

void Pair::to_ready(const Pair& peer, std::uint8_t rnr_retry, std::uint8_t timeout) const {
  ibv_port_attr port{};
  ibv_gid_entry gid{};
  ASSERT_EQ(peer.side.verbs->query_port(peer.side.context.get(), 1, &port), 0);
  const std::uint8_t index = port.link_layer == IBV_LINK_LAYER_ETHERNET ? 3 : 0;
  ASSERT_EQ(peer.side.verbs->query_gid(peer.side.context.get(), 1, index, &gid), 0);

  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = port.active_mtu;
  receive.dest_qp_num = peer.qp->qp_num;
  receive.rq_psn = peer.qp->qp_num + 1000;
  receive.max_dest_rd_atomic = 1;
  receive.min_rnr_timer = 12;
  receive.ah_attr.port_num = 1;
  receive.ah_attr.dlid = port.lid;
  if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
    receive.ah_attr.is_global = 1;
    receive.ah_attr.grh.dgid = gid.gid;
    receive.ah_attr.grh.sgid_index = index;
  }
  ASSERT_EQ(
      side.verbs->modify_qp(qp.get(), &receive,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
      0);
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = timeout;
  send.retry_cnt = 7;
  send.rnr_retry = rnr_retry;
  send.sq_psn = qp->qp_num + 1000 + psn_shift;
  send.max_rd_atomic = 1;
  ASSERT_EQ(side.verbs->modify_qp(qp.get(), &send,
                                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
            0);
}

int Pair::to(ibv_qp_state state) const {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return side.verbs->modify_qp(qp.get(), &attributes, IBV_QP_STATE);
}

int Pair::send(ibv_send_wr request, std::vector<ibv_sge> pieces) const {
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  ibv_send_wr* bad = nullptr;
  return side.verbs->post_send(qp.get(), &request, &bad);
}

int Pair::write(std::uint64_t id, const ibv_sge& from, const Side& peer, std::size_t offset,
                unsigned flags) const {
  return send(write_request(id, peer, offset, IBV_WR_RDMA_WRITE, flags), {from});
}

int Pair::receive(std::uint64_t id, std::vector<ibv_sge> pieces) const {
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  ibv_recv_wr* bad = nullptr;
  return side.verbs->post_recv(qp.get(), &request, &bad);
}

void connect(const Pair& a, const Pair& b, std::uint8_t rnr_retry, std::uint8_t timeout) {
  a.to_init();
  if (a.qp.get() != b.qp.get()) b.to_init();
  a.to_ready(b, rnr_retry, timeout);
  if (a.qp.get() != b.qp.get()) b.to_ready(a, rnr_retry, timeout);
}

ibv_send_wr write_request(std::uint64_t id, const Side& peer, std::size_t offset,
                          ibv_wr_opcode opcode, unsigned flags) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = opcode;
  request.send_flags = flags;
  request.wr.rdma.remote_addr = peer.address(offset);
  request.wr.rdma.rkey = peer.region->rkey;
  return request;
}

void TwoRanks::make(const NicSpec& first, const NicSpec& second, std::uint8_t rnr_retry) {
  a_.emplace(network_.device(0, first));
  b_.emplace(network_.device(1, second));
  ab_.emplace(*a_);
  ba_.emplace(*b_);
  connect(*ab_, *ba_, rnr_retry);
  for (std::size_t i = 0; i < a_->memory.size(); ++i)
    a_->memory[i] = static_cast<std::byte>(i * 7 + 1);
}

void TwoRanks::TearDown() {
  ab_.reset();
  ba_.reset();
  a_.reset();
  b_.reset();
  EXPECT_EQ(network_.left_behind(), "");
  if (clean_) {
    EXPECT_EQ(network_.complaints(), "");
  }
}

}  // namespace weft::p2p::verbs::fake
