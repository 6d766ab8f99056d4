// How one queue pair meets another by the connection manager.
#pragma once

#include <cstdint>
#include <string>

#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/verbs/api/handles.hpp"
#include "p2p/transport/verbs/cm/credentials.hpp"
#include "p2p/transport/verbs/device/device.hpp"

namespace weft::p2p::verbs {

/// The caller's end: address, route, call, answer. The other's: call, answer. Each step but the
/// first follows from an event; none waits. Throws Error where a step can't be taken.
class CmConnection {
 public:
  /// `pair` must outlive it, in state INIT.
  CmConnection(ConnectionManager& manager, Device& device, ibv_qp* pair) noexcept
      : manager_(&manager), device_(&device), pair_(pair) {}

  /// Sets the peer's address and the credentials that this end shows.
  void know(const VerbsAddress& peer, const Credentials& own) noexcept {
    peer_ = peer;
    own_ = own;
    knows_ = true;
  }
  /// Calls the peer from this place. Its events bear `context`.
  void call(rdma_event_channel* events, void* context, const IpAddress& from, int timeout_ms);
  /// The peer's call, whose credentials were good: answered as soon as the peer is known.
  void on_request(ConnectionId id, void* context);
  void answer();

  enum class Progress : std::uint8_t { under_way, up, failed };
  /// An event of its id. `expected`: what the answer to a call must bear.
  Progress handle(const rdma_cm_event& event, const Credentials& expected);

  bool is_called() const noexcept { return static_cast<bool>(id_); }
  bool is_up() const noexcept { return step_ == Step::up; }
  /// "finding the route to 10.9.0.11:4711"
  std::string doing() const;
  /// The error behind a failure: what the event says, and what to look at.
  std::string why(const rdma_cm_event& event) const;

 private:
  enum class Step : std::uint8_t { waiting, address, route, call, answer, up };

  rdma_conn_param parameters() const noexcept;
  void require(int error, const char* function) const;
  void require_own_port() const;
  void ready();
  void to_state(ibv_qp_state state);
  void connect();
  void finish();

  ConnectionManager* manager_;
  Device* device_;
  ibv_qp* pair_;
  ConnectionId id_;
  VerbsAddress peer_;
  Credentials own_;
  bool knows_ = false;
  int timeout_ms_ = 0;
  Step step_ = Step::waiting;
};

}  // namespace weft::p2p::verbs
