// The RDMA verbs library as weft sees it: one seam, so that a test can put another in its place.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace weft::p2p::verbs {

class ConnectionManager;

/// Memory of a device behind a descriptor. Work requests name it by `address` and what follows.
struct DmaBuf {
  int fd = -1;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::uint64_t address = 0;
};

/// The calls of libibverbs that weft makes, with its types. Errors are told one way: a call that
/// makes something returns null and sets errno, every other returns 0 or a positive errno;
/// poll_cq alone returns the number of completions, or a negative number. Nothing throws.
/// Thread-safety: as libibverbs; post_send, post_recv, poll_cq and req_notify_cq from any thread.
class Verbs {
 public:
  virtual ~Verbs() = default;

  // Devices. A list must outlive the opening of its devices.
  virtual ibv_device** device_list(int* count) noexcept = 0;
  virtual void free_device_list(ibv_device** list) noexcept = 0;
  virtual const char* device_name(ibv_device* device) noexcept = 0;
  virtual ibv_context* open_device(ibv_device* device) noexcept = 0;
  virtual int close_device(ibv_context* context) noexcept = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* attributes) noexcept = 0;
  virtual int query_port(ibv_context* context, std::uint8_t port,
                         ibv_port_attr* attributes) noexcept = 0;
  /// ENODATA: nothing at that index.
  virtual int query_gid(ibv_context* context, std::uint8_t port, std::uint32_t index,
                        ibv_gid_entry* entry) noexcept = 0;
  /// The context's async_fd is made non-blocking by who polls it.
  virtual int get_async_event(ibv_context* context, ibv_async_event* event) noexcept = 0;
  virtual void ack_async_event(ibv_async_event* event) noexcept = 0;

  // Memory.
  virtual ibv_pd* alloc_pd(ibv_context* context) noexcept = 0;
  virtual int dealloc_pd(ibv_pd* pd) noexcept = 0;
  virtual ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) noexcept = 0;
  /// EOPNOTSUPP: the library or the NIC's driver is too old.
  virtual ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const DmaBuf& memory, int access) noexcept = 0;
  virtual int dereg_mr(ibv_mr* mr) noexcept = 0;

  // Completions.
  virtual ibv_comp_channel* create_comp_channel(ibv_context* context) noexcept = 0;
  virtual int destroy_comp_channel(ibv_comp_channel* channel) noexcept = 0;
  virtual ibv_cq* create_cq(ibv_context* context, int depth,
                            ibv_comp_channel* channel) noexcept = 0;
  virtual int destroy_cq(ibv_cq* cq) noexcept = 0;
  virtual int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) noexcept = 0;
  virtual int req_notify_cq(ibv_cq* cq) noexcept = 0;
  /// EAGAIN: none is there (on a non-blocking descriptor).
  virtual int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) noexcept = 0;
  virtual void ack_cq_events(ibv_cq* cq, unsigned count) noexcept = 0;

  // Queue pairs.
  virtual ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) noexcept = 0;
  virtual int destroy_qp(ibv_qp* qp) noexcept = 0;
  virtual int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) noexcept = 0;
  /// Whether a reader that sees the last byte of a write sees all of it.
  virtual bool data_in_order(ibv_qp* qp, ibv_wr_opcode opcode) noexcept = 0;
  virtual int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept = 0;
  virtual int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) noexcept = 0;

  /// Whether what a fork leaves in the child can't harm the parent's registered memory.
  virtual bool fork_safe() noexcept = 0;
  virtual const char* status_text(ibv_wc_status status) noexcept = 0;
  virtual const char* event_text(ibv_event_type type) noexcept = 0;

  /// The connection manager of the same devices, loaded when first asked for. Null: there is none,
  /// and `why` says so.
  virtual std::shared_ptr<ConnectionManager> connection_manager(std::string& why) = 0;
};

}  // namespace weft::p2p::verbs
