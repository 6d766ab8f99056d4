// Ranks with fake NICs, and queue pairs between them, for tests.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "p2p/transport/verbs/api/handles.hpp"
#include "p2p/transport/verbs/fake/fake_network.hpp"

namespace weft::p2p::verbs::fake {

constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// An opened NIC with one completion queue and 64 KiB of registered memory.
struct Side {
  explicit Side(std::shared_ptr<Verbs> library, int access = kAllAccess);

  ibv_sge sge(std::size_t offset, std::uint32_t length) const;
  std::uint64_t address(std::size_t offset = 0) const;
  /// The next completion, within `wait`.
  std::optional<ibv_wc> poll(std::chrono::milliseconds wait = std::chrono::seconds(5));
  /// An asynchronous event, or 0 errors if there is none.
  std::optional<ibv_async_event> event();

  std::shared_ptr<Verbs> verbs;
  std::vector<std::byte> memory;
  Context context;
  ProtectionDomain domain;
  MemoryRegion region;
  CompletionEvents channel;
  CompletionQueue queue;
};

struct Pair {
  explicit Pair(Side& side, int depth = 64);

  void to_init(unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) const;
  /// Takes the queue pair to RTS, connected to `peer`. Packet sequence numbers follow from the
  /// queue pair numbers.
  void to_ready(const Pair& peer, std::uint8_t rnr_retry = 7, std::uint8_t timeout = 14) const;
  int to(ibv_qp_state state) const;

  int send(ibv_send_wr request, std::vector<ibv_sge> pieces = {}) const;
  int write(std::uint64_t id, const ibv_sge& from, const Side& peer, std::size_t offset,
            unsigned flags = IBV_SEND_SIGNALED) const;
  int receive(std::uint64_t id, std::vector<ibv_sge> pieces = {}) const;

  Side& side;
  QueuePairHandle qp;
  std::uint32_t psn_shift = 0;  ///< from the number that the peer is told
};

void connect(const Pair& a, const Pair& b, std::uint8_t rnr_retry = 7, std::uint8_t timeout = 14);

/// A request to write to a peer's memory.
ibv_send_wr write_request(std::uint64_t id, const Side& peer, std::size_t offset,
                          ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE,
                          unsigned flags = IBV_SEND_SIGNALED);

/// Two connected ranks; at the end, the fake NICs must have no complaint.
class TwoRanks : public ::testing::Test {
 protected:
  void make(const NicSpec& first = {}, const NicSpec& second = {}, std::uint8_t rnr_retry = 7);
  void TearDown() override;

  FakeNetwork network_{{.seed = 7, .rnr_wait = std::chrono::milliseconds(2)}};
  std::optional<Side> a_;
  std::optional<Side> b_;
  std::optional<Pair> ab_;
  std::optional<Pair> ba_;
  bool clean_ = true;  ///< whether complaints are a failure
};

}  // namespace weft::p2p::verbs::fake
