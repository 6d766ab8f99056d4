// The RDMA connection manager as weft sees it: one seam, so that a test can put another in its
// place.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

namespace weft::p2p::verbs {

/// The calls of librdmacm that weft makes, with its types, for connections between queue pairs that
/// weft makes itself. Errors are told one way: a call that makes something returns null and sets
/// errno, every other returns 0 or a positive errno. Nothing throws, and nothing waits for a peer.
/// Thread-safety: as librdmacm; weft calls it from the progress thread alone.
class ConnectionManager {
 public:
  virtual ~ConnectionManager() = default;

  virtual rdma_event_channel* create_event_channel() noexcept = 0;
  /// All ids of the channel must have gone.
  virtual int destroy_event_channel(rdma_event_channel* channel) noexcept = 0;
  /// EAGAIN: none is there (on a non-blocking descriptor).
  virtual int get_event(rdma_event_channel* channel, rdma_cm_event** event) noexcept = 0;
  virtual void ack_event(rdma_cm_event* event) noexcept = 0;

  /// For reliable connections. `context` is the user's own.
  virtual rdma_cm_id* create_id(rdma_event_channel* channel, void* context) noexcept = 0;
  /// Every event of it must have been acknowledged; none follows.
  virtual int destroy_id(rdma_cm_id* id) noexcept = 0;
  /// Afterwards the id names the device of the address, if there is one.
  virtual int bind(rdma_cm_id* id, const sockaddr* address) noexcept = 0;
  virtual int listen(rdma_cm_id* id, int backlog) noexcept = 0;
  /// Where it listens.
  virtual std::uint16_t port(rdma_cm_id* id) noexcept = 0;

  virtual int resolve_address(rdma_cm_id* id, const sockaddr* from, const sockaddr* to,
                              int timeout_ms) noexcept = 0;
  virtual int resolve_route(rdma_cm_id* id, int timeout_ms) noexcept = 0;
  /// Fills in the attributes that a queue pair needs for the state that `attributes` names.
  virtual int queue_pair_attributes(rdma_cm_id* id, ibv_qp_attr* attributes,
                                    int* mask) noexcept = 0;
  virtual int connect(rdma_cm_id* id, rdma_conn_param* parameters) noexcept = 0;
  virtual int accept(rdma_cm_id* id, rdma_conn_param* parameters) noexcept = 0;
  virtual int reject(rdma_cm_id* id) noexcept = 0;
  /// The caller's last word: its queue pair is ready.
  virtual int establish(rdma_cm_id* id) noexcept = 0;

  virtual const char* event_text(rdma_cm_event_type type) noexcept = 0;
};

}  // namespace weft::p2p::verbs
