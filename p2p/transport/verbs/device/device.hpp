// One port of a NIC: what it can do, the memory registered with it, how its queue pairs are set up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "p2p/transport/verbs/api/handles.hpp"
#include "p2p/transport/verbs/device/budget.hpp"
#include "p2p/transport/verbs/device/options.hpp"
#include "p2p/transport/verbs/device/verbs_address.hpp"
#include "topology/placement/rank_placement.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {

struct Port;
struct GidChoice;
struct PortChoice;

/// Thread-safe once made, but for watching events.
class Device {
 public:
  /// Opens the ports that this rank takes (choose_rails), the nearest first. Logs what was chosen,
  /// a line for each port that had to be left out, and the settings in force. A further port that
  /// can't be opened is left out, too. Throws as the constructor, for the nearest.
  static std::vector<std::unique_ptr<Device>> open_all(
      const std::shared_ptr<Verbs>& verbs, const VerbsOptions& options, Log& log,
      const topology::RankPlacement& placement = {});
  /// Opens the port that WEFT_NIC names, or that of `placement`, or the fastest (choose_port). Logs
  /// what was chosen and the settings in force. Throws Error(unreachable), which says of every port
  /// why it is not it; Error(bad_config) where a setting does not fit the machine;
  /// Error(exhausted) where the first arenas can't be registered.
  Device(std::shared_ptr<Verbs> verbs, const VerbsOptions& options, Log& log,
         const topology::RankPlacement& placement = {});

  /// Queue depths are no more than the device allows.
  const VerbsOptions& options() const noexcept { return options_; }
  const DeviceLimits& limits() const noexcept { return limits_; }
  Verbs& verbs() const noexcept { return *verbs_; }
  ibv_context* context() const noexcept { return context_.get(); }
  ibv_pd* domain() const noexcept { return domain_.get(); }
  /// "mlx5_0:1"
  const std::string& name() const noexcept { return name_; }
  /// The port, as peers need to know it.
  const VerbsAddress& address() const noexcept { return address_; }
  bool is_iwarp() const noexcept { return address_.iwarp != 0; }

  /// Throws Error(exhausted): what was to be registered, how much is, RLIMIT_MEMLOCK and the
  /// device's own limits, and what to do.
  MemoryRegion register_memory(void* data, std::size_t bytes, int access);

  /// Reads that a queue pair to the peer may have under way, in each direction.
  std::uint8_t reads_with(const VerbsAddress& peer) const noexcept;
  /// How often a sender tries again that finds no receive posted.
  static constexpr std::uint8_t kNotReadyRetries = 6;
  /// Number of resends, each after WEFT_IB_TIMEOUT without an answer, before the path is lost.
  static constexpr std::uint8_t kResends = 7;

  // The states of a queue pair. Throw Error(system), with the call, its error and what to look at.
  void to_reset(ibv_qp* qp) const;
  void to_init(ibv_qp* qp) const;
  /// Ready to receive from, then to send to, the queue pair `number` of a peer's port.
  void to_ready(ibv_qp* qp, const VerbsAddress& peer, std::uint32_t number,
                std::uint32_t receive_psn, std::uint32_t send_psn) const;
  /// To the state of `told`, which the connection manager has filled in: of the path it is to be
  /// believed, the rest is as for the others above.
  void to_state(ibv_qp* qp, ibv_qp_attr told, int mask, const VerbsAddress& peer) const;
  /// All requests under way are flushed, and nothing of the peer arrives any more.
  void to_error(ibv_qp* qp) const noexcept;

  /// Where asynchronous events show; non-blocking.
  int event_fd() const noexcept { return context_->async_fd; }
  /// Reads one event, if there is one: logged, with what it means; a queue pair's goes to
  /// `on_queue_pair`, which must not destroy it: that waits until the event is done with. Null: all
  /// queue pairs are lost with the device. `on_port`: the link of the port is up or down. Call when
  /// event_fd() is readable.
  void handle_event(const std::function<void(ibv_qp*)>& on_queue_pair,
                    const std::function<void(bool up)>& on_port = {});

 private:
  /// A port of `context`.
  Device(std::shared_ptr<Verbs> verbs, const VerbsOptions& options, Log& log, Context context,
         const Port& port, const GidChoice& gid);
  void open(Context context, const Port& port, const GidChoice& gid);
  void take(const Port& port, const GidChoice& gid);
  void tell(const PortChoice& choice) const;
  void read_limits(const ibv_port_attr& port);
  void check_memory() const;
  void modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask, const char* transition,
              const std::string& hint) const;
  void look_for_gid();

  const std::shared_ptr<Verbs> verbs_;
  VerbsOptions options_;
  Log& log_;
  Context context_;
  ProtectionDomain domain_;
  std::uint8_t port_ = 0;
  std::uint8_t gid_index_ = 0;
  bool needs_global_route_ = false;  ///< the port says so, even within its subnet
  DeviceLimits limits_;
  VerbsAddress address_;
  std::string name_;
};

}  // namespace weft::p2p::verbs
