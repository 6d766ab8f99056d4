// The settings of the verbs fabric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config.hpp"

namespace weft::p2p::verbs {

/// How a put's completion is made known (WEFT_NOTIFY).
enum class NotifyMode : std::uint8_t { automatic, tail, immediate, counted, send };
/// As WEFT_NOTIFY has it.
std::string_view name(NotifyMode notify_mode) noexcept;

/// The settings of the verbs fabric, as read.
struct VerbsOptions {
  std::string nic;             ///< WEFT_NIC: "mlx5_0" or "mlx5_0:1,mlx5_1"; empty: the best
  int rails = 0;               ///< WEFT_RAILS: the most ports; 0: those that are equally near
  int gid_index = -1;          ///< WEFT_IB_GID; -1: by rule
  int queue_pairs = 1;         ///< WEFT_QPS_PER_PEER
  int completion_queues = 0;   ///< WEFT_CQS; 0: the waiting thread polls
  std::uint32_t depth = 1024;  ///< WEFT_QUEUE_DEPTH: work requests of a queue pair
  NotifyMode notify_mode = NotifyMode::automatic;
  std::uint8_t timeout = 14;        ///< WEFT_IB_TIMEOUT: 4.096 us * 2^timeout
  std::uint8_t service_level = 0;   ///< WEFT_IB_SL
  std::uint8_t traffic_class = 0;   ///< WEFT_IB_TRAFFIC_CLASS
  std::uint16_t pkey_index = 0;     ///< WEFT_IB_PKEY
  int mtu = 0;                      ///< WEFT_IB_MTU: bytes; 0: the port's active one
  std::uint64_t max_message = 0;    ///< WEFT_IB_MAX_MESSAGE: bytes; 0: what the device can
  bool connection_manager = false;  ///< WEFT_CONNECT=cm
  int eager_ranks = 128;            ///< WEFT_MESH_EAGER
  bool gpudirect = true;            ///< unless WEFT_GDR_LEVEL=never
  std::string gpu_flush = "auto";   ///< WEFT_GPU_FLUSH
  /// GPUs that the device should not reach, by PCI address, and why (WEFT_GDR_LEVEL).
  std::vector<std::pair<std::string, std::string>> far_gpus{};
  /// Bytes that must be registrable at join: the control arena, and the largest step of the data
  /// arena (WEFT_ARENA_CHUNK). The first steps are smaller, but a rank soon needs a whole one.
  std::size_t arena_bytes = 0;

  static VerbsOptions read(const Config& config);
  /// All of them as they stand, by their variables, in one line.
  std::string text() const;
};

}  // namespace weft::p2p::verbs
