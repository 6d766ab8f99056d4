// The connection manager over a fake network.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "p2p/transport/verbs/api/connection_manager.hpp"
#include "p2p/transport/verbs/fake/engine.hpp"

namespace weft::p2p::verbs::fake {

struct FakeId;

struct FakeCmEvent : rdma_cm_event {
  std::array<std::byte, 56> said{};
};

struct FakeCmChannel : rdma_event_channel {
  EventQueue<FakeCmEvent*> events;
};

/// Finds a peer by its GID, which is its address, at once; the listener there is told of a call.
/// Private data of calls and answers arrives as over InfiniBand: with zeros appended. On an iWARP
/// NIC, accepting readies both queue pairs.
class FakeConnectionManager final : public ConnectionManager {
 public:
  FakeConnectionManager(std::shared_ptr<Engine> engine, std::vector<FakeNic*> nics)
      : engine_(std::move(engine)), nics_(std::move(nics)) {}

  rdma_event_channel* create_event_channel() noexcept override;
  int destroy_event_channel(rdma_event_channel* channel) noexcept override;
  int get_event(rdma_event_channel* channel, rdma_cm_event** event) noexcept override;
  void ack_event(rdma_cm_event* event) noexcept override;
  rdma_cm_id* create_id(rdma_event_channel* channel, void* context) noexcept override;
  int destroy_id(rdma_cm_id* id) noexcept override;
  int bind(rdma_cm_id* id, const sockaddr* address) noexcept override;
  int listen(rdma_cm_id* id, int backlog) noexcept override;
  std::uint16_t port(rdma_cm_id* id) noexcept override;
  int resolve_address(rdma_cm_id* id, const sockaddr* from, const sockaddr* to,
                      int timeout_ms) noexcept override;
  int resolve_route(rdma_cm_id* id, int timeout_ms) noexcept override;
  int queue_pair_attributes(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) noexcept override;
  int connect(rdma_cm_id* id, rdma_conn_param* parameters) noexcept override;
  int accept(rdma_cm_id* id, rdma_conn_param* parameters) noexcept override;
  int reject(rdma_cm_id* id) noexcept override;
  int establish(rdma_cm_id* id) noexcept override;
  const char* event_text(rdma_cm_event_type type) noexcept override;

 private:
  const std::shared_ptr<Engine> engine_;
  const std::vector<FakeNic*> nics_;
};

}  // namespace weft::p2p::verbs::fake
