// One port of a NIC: what it can do, the memory registered with it, how its queue pairs are set up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "p2p/address.hpp"
#include "p2p/verbs/api/handles.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {

/// What forces the way a put is made known (WEFT_LADDER).
enum class Ladder : std::uint8_t { automatic, tail, immediate, counted, send };

/// The knobs of the verbs fabric, as read.
struct VerbsOptions {
  std::string nic;             ///< WEFT_NIC: "mlx5_0" or "mlx5_0:1"; empty: the best
  int gid_index = -1;          ///< WEFT_IB_GID; -1: by rule
  int queue_pairs = 1;         ///< WEFT_QPS_PER_PEER
  int completion_queues = 0;   ///< WEFT_CQS; 0: whoever waits polls
  std::uint32_t depth = 1024;  ///< WEFT_QUEUE_DEPTH: work requests of a queue pair
  Ladder ladder = Ladder::automatic;
  std::uint8_t timeout = 14;       ///< WEFT_IB_TIMEOUT: 4.096 us * 2^timeout
  std::uint8_t retry = 7;          ///< WEFT_IB_RETRY
  std::uint8_t service_level = 0;  ///< WEFT_IB_SL
  std::uint8_t traffic_class = 0;  ///< WEFT_IB_TRAFFIC_CLASS
  std::uint16_t pkey_index = 0;    ///< WEFT_IB_PKEY
  int mtu = 0;                     ///< WEFT_IB_MTU: bytes; 0: the port's active one

  static VerbsOptions read(const Config& config);
};

/// What the device allows.
struct DeviceLimits {
  std::uint64_t max_message = 0;  ///< bytes of one work request
  std::uint32_t max_depth = 0;    ///< work requests of one queue
  std::uint32_t max_queue_pairs = 0;
  std::uint64_t max_regions = 0;
  std::uint64_t max_region_bytes = 0;
  std::uint8_t max_reads = 0;  ///< reads that a queue pair may have under way
};

/// Thread-safe once made, but for watching events.
class Device {
 public:
  /// Opens the port that WEFT_NIC names, or the best: active, RDMA-capable, the highest rate.
  /// Throws Error(unreachable), which says of every port why it is not it.
  Device(std::shared_ptr<Verbs> verbs, const VerbsOptions& options, Log& log);

  const VerbsOptions& options() const noexcept { return options_; }
  const DeviceLimits& limits() const noexcept { return limits_; }
  Verbs& verbs() const noexcept { return *verbs_; }
  ibv_context* context() const noexcept { return context_.get(); }
  ibv_pd* domain() const noexcept { return domain_.get(); }
  /// "mlx5_0:1"
  const std::string& name() const noexcept { return name_; }
  /// What peers need to know of it.
  const VerbsAddress& address() const noexcept { return address_; }
  bool is_iwarp() const noexcept { return address_.iwarp != 0; }

  /// Throws Error(exhausted): what was to be registered, how much is, RLIMIT_MEMLOCK and the
  /// device's own limits, and what to do.
  MemoryRegion register_memory(void* data, std::size_t bytes, int access);

  // The states of a queue pair. Throw Error(system), with the call, its error and what to look at.
  void to_init(ibv_qp* qp) const;
  /// Ready to receive from, then to send to, the queue pair `number` of a peer's port.
  void to_ready(ibv_qp* qp, const VerbsAddress& peer, std::uint32_t number,
                std::uint32_t receive_psn, std::uint32_t send_psn) const;
  /// Whatever is under way is flushed, and nothing of the peer arrives any more.
  void to_error(ibv_qp* qp) const noexcept;

  /// Where asynchronous events show; non-blocking.
  int event_fd() const noexcept { return context_->async_fd; }
  /// Reads one event, if there is one: logged, with what it means; a queue pair's goes to
  /// `on_queue_pair`. Call when event_fd() is readable.
  void handle_event(const std::function<void(ibv_qp*)>& on_queue_pair);
  /// Whether the port is up, as far as is known.
  bool port_is_up() const noexcept { return port_up_; }

 private:
  std::shared_ptr<Verbs> verbs_;
  const VerbsOptions options_;
  Log& log_;
  Context context_;
  ProtectionDomain domain_;
  std::uint8_t port_ = 0;
  std::uint8_t gid_index_ = 0;
  DeviceLimits limits_;
  VerbsAddress address_;
  std::string name_;
  std::atomic<bool> port_up_{true};
  std::atomic<std::uint64_t> registered_{0};  ///< bytes
};

}  // namespace weft::p2p::verbs
