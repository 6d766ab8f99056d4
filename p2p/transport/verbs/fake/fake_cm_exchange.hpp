// The listeners of a fake network, for its connection managers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "p2p/transport/verbs/api/connection_manager.hpp"

namespace weft::p2p::verbs::fake {

struct FakeNic;
struct FakeCmChannel;

struct FakeId : rdma_cm_id {
  using Address = std::pair<std::array<std::byte, 16>, std::uint16_t>;

  FakeNic* nic = nullptr;
  Address own{};
  Address remote{};
  FakeId* peer = nullptr;
  std::uint32_t queue_pair = 0;
  std::uint32_t psn = 0;
  bool is_up = false;
};

/// Guarded by the engine's mutex.
struct FakeCmExchange {
  std::map<FakeId::Address, FakeId*> listeners;
  std::uint16_t next_port = 1;
  std::size_t ids = 0;       ///< that exist
  std::size_t channels = 0;  ///< that exist
};

}  // namespace weft::p2p::verbs::fake
