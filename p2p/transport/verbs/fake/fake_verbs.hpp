// The verbs library over a fake network.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "p2p/transport/verbs/fake/engine.hpp"

namespace weft::p2p::verbs::fake {

class FakeVerbs final : public Verbs {
 public:
  FakeVerbs(std::shared_ptr<Engine> engine, std::vector<FakeNic*> nics)
      : engine_(std::move(engine)), nics_(std::move(nics)) {}

  ibv_device** device_list(int* count) noexcept override;
  void free_device_list(ibv_device** list) noexcept override;
  const char* device_name(ibv_device* device) noexcept override;
  ibv_context* open_device(ibv_device* device) noexcept override;
  int close_device(ibv_context* context) noexcept override;
  int query_device(ibv_context* context, ibv_device_attr* attributes) noexcept override;
  int query_port(ibv_context* context, std::uint8_t port,
                 ibv_port_attr* attributes) noexcept override;
  int query_gid(ibv_context* context, std::uint8_t port, std::uint32_t index,
                ibv_gid_entry* entry) noexcept override;
  int get_async_event(ibv_context* context, ibv_async_event* event) noexcept override;
  void ack_async_event(ibv_async_event* event) noexcept override;

  ibv_pd* alloc_pd(ibv_context* context) noexcept override;
  int dealloc_pd(ibv_pd* pd) noexcept override;
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) noexcept override;
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const DmaBuf& memory, int access) noexcept override;
  int dereg_mr(ibv_mr* mr) noexcept override;

  ibv_comp_channel* create_comp_channel(ibv_context* context) noexcept override;
  int destroy_comp_channel(ibv_comp_channel* channel) noexcept override;
  ibv_cq* create_cq(ibv_context* context, int depth, ibv_comp_channel* channel) noexcept override;
  int destroy_cq(ibv_cq* cq) noexcept override;
  int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) noexcept override;
  int req_notify_cq(ibv_cq* cq) noexcept override;
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) noexcept override;
  void ack_cq_events(ibv_cq* cq, unsigned count) noexcept override;

  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) noexcept override;
  int destroy_qp(ibv_qp* qp) noexcept override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) noexcept override;
  bool data_in_order(ibv_qp* qp, ibv_wr_opcode opcode) noexcept override;
  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override;
  int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) noexcept override;

  bool fork_safe() noexcept override { return engine_->options().fork_safe; }
  const char* status_text(ibv_wc_status status) noexcept override;
  const char* event_text(ibv_event_type type) noexcept override;
  std::shared_ptr<ConnectionManager> connection_manager(std::string& why) override;

 private:
  /// With the engine's lock; `refusal`: an errno, or 0.
  ibv_mr* make_mr(ibv_pd* pd, void* address, std::size_t bytes, int access, int refusal);
  /// EBUSY, and a complaint.
  int busy(const char* what);

  const std::shared_ptr<Engine> engine_;
  const std::vector<FakeNic*> nics_;
};

}  // namespace weft::p2p::verbs::fake
