// A verbs library that passes every call on, and records the state changes of queue pairs.
#pragma once

#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "p2p/transport/verbs/api/verbs.hpp"

namespace weft::p2p::verbs {

class RecordingVerbs : public Verbs {
 public:
  struct Change {
    ibv_qp_attr attributes;
    int mask;
  };

  explicit RecordingVerbs(std::shared_ptr<Verbs> below) : below_(std::move(below)) {}

  std::vector<Change> changes;
  int modify_error = 0;    ///< what modify_qp answers from now on, without passing it on
  bool gids_gone = false;  ///< the tables of GIDs are empty from now on
  bool forks_safely = true;
  std::uint8_t port_flags = 0;  ///< of every port, besides its own

  /// The access flags of every registration so far.
  std::vector<int> accesses() const {
    const std::lock_guard lock(mutex_);
    return accesses_;
  }

  int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) noexcept override {
    changes.push_back({*attributes, mask});
    return modify_error != 0 ? modify_error : below_->modify_qp(qp, attributes, mask);
  }
  int query_gid(ibv_context* context, std::uint8_t port, std::uint32_t index,
                ibv_gid_entry* entry) noexcept override {
    return gids_gone ? ENODATA : below_->query_gid(context, port, index, entry);
  }
  bool fork_safe() noexcept override { return forks_safely; }
  int query_port(ibv_context* context, std::uint8_t port,
                 ibv_port_attr* attributes) noexcept override {
    const int error = below_->query_port(context, port, attributes);
    attributes->flags |= port_flags;
    return error;
  }

  ibv_device** device_list(int* count) noexcept override { return below_->device_list(count); }
  void free_device_list(ibv_device** list) noexcept override { below_->free_device_list(list); }
  const char* device_name(ibv_device* device) noexcept override {
    return below_->device_name(device);
  }
  ibv_context* open_device(ibv_device* device) noexcept override {
    return below_->open_device(device);
  }
  int close_device(ibv_context* context) noexcept override { return below_->close_device(context); }
  int query_device(ibv_context* context, ibv_device_attr* attributes) noexcept override {
    return below_->query_device(context, attributes);
  }
  int get_async_event(ibv_context* context, ibv_async_event* event) noexcept override {
    return below_->get_async_event(context, event);
  }
  void ack_async_event(ibv_async_event* event) noexcept override { below_->ack_async_event(event); }
  ibv_pd* alloc_pd(ibv_context* context) noexcept override { return below_->alloc_pd(context); }
  int dealloc_pd(ibv_pd* pd) noexcept override { return below_->dealloc_pd(pd); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      accesses_.push_back(access);
    }
    return below_->reg_mr(pd, address, bytes, access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const DmaBuf& memory, int access) noexcept override {
    return below_->reg_dmabuf_mr(pd, memory, access);
  }
  int dereg_mr(ibv_mr* mr) noexcept override { return below_->dereg_mr(mr); }
  ibv_comp_channel* create_comp_channel(ibv_context* context) noexcept override {
    return below_->create_comp_channel(context);
  }
  int destroy_comp_channel(ibv_comp_channel* channel) noexcept override {
    return below_->destroy_comp_channel(channel);
  }
  ibv_cq* create_cq(ibv_context* context, int depth, ibv_comp_channel* channel) noexcept override {
    return below_->create_cq(context, depth, channel);
  }
  int destroy_cq(ibv_cq* cq) noexcept override { return below_->destroy_cq(cq); }
  int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) noexcept override {
    return below_->poll_cq(cq, count, completions);
  }
  int req_notify_cq(ibv_cq* cq) noexcept override { return below_->req_notify_cq(cq); }
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) noexcept override {
    return below_->get_cq_event(channel, cq);
  }
  void ack_cq_events(ibv_cq* cq, unsigned count) noexcept override {
    below_->ack_cq_events(cq, count);
  }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) noexcept override {
    return below_->create_qp(pd, attributes);
  }
  int destroy_qp(ibv_qp* qp) noexcept override { return below_->destroy_qp(qp); }
  bool data_in_order(ibv_qp* qp, ibv_wr_opcode opcode) noexcept override {
    return below_->data_in_order(qp, opcode);
  }
  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override {
    return below_->post_send(qp, requests, bad);
  }
  int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) noexcept override {
    return below_->post_recv(qp, requests, bad);
  }
  const char* status_text(ibv_wc_status status) noexcept override {
    return below_->status_text(status);
  }
  const char* event_text(ibv_event_type type) noexcept override { return below_->event_text(type); }
  std::shared_ptr<ConnectionManager> connection_manager(std::string& why) override {
    return below_->connection_manager(why);
  }

 private:
  const std::shared_ptr<Verbs> below_;
  mutable std::mutex mutex_;
  std::vector<int> accesses_;
};

}  // namespace weft::p2p::verbs
