// NICs made of software, for ranks that are threads of one process.
//
//   FakeNetwork network({.seed = 7});
//   std::shared_ptr<Verbs> a = network.device(0);                       // perfect
//   std::shared_ptr<Verbs> b = network.device(1, FaultPlan{.delayed = 0.2, .late = 0.2});
//   std::shared_ptr<Verbs> c = network.device(2, NicSpec{.iwarp = true, .max_message = 4096});
//   ... open, register, connect queue pairs by LID or GID, post, poll: real bytes move ...
//   network.set_port(1, false);                                         // meanwhile
//   EXPECT_EQ(network.complaints(), "");                                // the NICs were used well
//   EXPECT_EQ(network.left_behind(), "");                               // all objects are gone
//
// Work is done by the thread that posts it, or, when it is delayed, by a thread of the network that
// sleeps otherwise. Bytes land as atomic stores, 8 aligned bytes each, in the order of their
// addresses (unless scattered), so that memory may be polled and ThreadSanitizer knows why.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "p2p/transport/verbs/api/verbs.hpp"
#include "p2p/transport/verbs/fake/options.hpp"

namespace weft::p2p::verbs::fake {

class Engine;

struct NetworkOptions {
  std::uint64_t seed = 1;  ///< of all chances; each queue pair draws from a row of its own
  /// How long a queue pair goes on with a peer that doesn't answer, unless its timeout is 0.
  std::chrono::nanoseconds retry_wait = std::chrono::milliseconds(20);
  /// Between two tries at a peer that has no receive posted.
  std::chrono::nanoseconds rnr_wait = std::chrono::milliseconds(1);
  bool fork_safe = true;
  std::shared_ptr<GpuMemory> gpus = {};  ///< null: the machine has none
};

/// Thread-safe. The Verbs that it gives may outlive it.
class FakeNetwork {
 public:
  explicit FakeNetwork(const NetworkOptions& options = {});

  /// The verbs library as `rank` has it: with one NIC, a new one, or with several (or none).
  std::shared_ptr<Verbs> device(int rank, NicSpec spec = {});
  std::shared_ptr<Verbs> device(int rank, const FaultPlan& faults);
  std::shared_ptr<Verbs> devices(int rank, std::vector<NicSpec> specs);

  // Events for all NICs of a rank.
  /// From now on; what was drawn for work already posted stays.
  void set_faults(int rank, const FaultPlan& faults);
  /// With the event. While it is down nothing passes, and nothing is answered.
  void set_port(int rank, bool up, std::uint8_t port = 1);
  /// Nothing passes to it or from it, and nobody is told: the rank is lost, or back.
  void isolate(int rank, bool isolated = true);
  /// The same for its NIC of that name alone.
  void set_nic_port(int rank, const std::string& nic, bool up);
  void isolate_nic(int rank, const std::string& nic, bool isolated);
  /// Posted work waits (but for its checks) until it is let go again.
  void hold(int rank, bool held = true);
  /// IBV_EVENT_DEVICE_FATAL: all queue pairs are in error, and all calls fail with EIO.
  void fail(int rank);
  /// Another event of a port.
  void announce(int rank, ibv_event_type type, std::uint8_t port = 1);

  /// From now on `change` may alter each message (SEND) on its way. It is called with the network's
  /// lock, and must not call the network.
  void tamper(std::function<void(int from, std::span<std::byte> message)> change);

  NicCounts counts(int rank) const;
  /// The same for its NIC of that name alone.
  NicCounts counts(int rank, const std::string& nic) const;
  /// Misuse of the NICs: objects destroyed while in use, events that were
  /// not acknowledged. A line each.
  std::string complaints() const;
  /// The objects that still exist; empty if there are none.
  std::string left_behind() const;

 private:
  std::shared_ptr<Engine> engine_;
};

}  // namespace weft::p2p::verbs::fake
