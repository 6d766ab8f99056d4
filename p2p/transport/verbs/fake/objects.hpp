// The objects of a fake NIC. The library's own types are its users' part of each object.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "p2p/transport/sim/random.hpp"
#include "p2p/transport/verbs/api/verbs.hpp"
#include "p2p/transport/verbs/fake/event_queue.hpp"
#include "p2p/transport/verbs/fake/options.hpp"

namespace weft::p2p::verbs::fake {

using Time = std::chrono::steady_clock::time_point;
using sim::Random;

struct FakeNic;
struct FakeQp;

struct FakeDevice : ibv_device {
  FakeNic* nic = nullptr;
};

struct FakeContext : ibv_context {
  FakeNic* nic = nullptr;
  EventQueue<ibv_async_event> events;
  int users = 0;  ///< objects made from it
};

struct FakePd : ibv_pd {
  int users = 0;
};

struct FakeMr : ibv_mr {
  int access = 0;
};

struct FakeCq;

struct FakeChannel : ibv_comp_channel {
  EventQueue<FakeCq*> events;
  int users = 0;
};

struct Completion {
  ibv_wc wc{};
  FakeQp* qp = nullptr;
  bool receive = false;
  bool signaled = false;     ///< a send's, that was asked for
  std::uint64_t posted = 0;  ///< the send queue is free up to there once this one is polled
};

struct FakeCq : ibv_cq {
  std::size_t depth = 0;
  int users = 0;
  std::atomic<unsigned> unacknowledged{0};

  std::mutex mutex;  ///< of what follows; taken within the engine's
  std::deque<Completion> entries;
  bool armed = false;
  bool overrun = false;
  std::atomic<std::size_t> count{0};  ///< of entries; read without the mutex
};

/// A stretch of memory that a work request names.
struct FakeSge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
};

struct Send {
  ibv_send_wr request{};
  std::vector<FakeSge> pieces;
  std::vector<std::byte> inlined;  ///< instead of pieces
  std::uint64_t length = 0;
  std::uint64_t posted = 0;  ///< its number in the queue, from 1
  bool signaled = false;
  ibv_wc_status forced = IBV_WC_SUCCESS;  ///< how it is to end, by the plan

  // While it is carried out.
  Time due{};
  std::chrono::nanoseconds late{};  ///< its completion comes so long after its data
  Time gives_up{};                  ///< on a silent peer; zero: it has not yet been silent
  Time rnr_ends{};                  ///< on a peer without receives
  bool scattered = false;
  bool overtaken = false;
  std::vector<std::uint64_t> cuts;  ///< scattered: where its parts begin
  std::vector<std::size_t> order;   ///< of the parts still to land, the next one last
};

struct Receive {
  std::uint64_t id = 0;
  std::vector<FakeSge> pieces;
};

struct Finished {
  Completion completion;
  Time due{};
};

struct FakeQp : ibv_qp, std::enable_shared_from_this<FakeQp> {
  explicit FakeQp(std::uint64_t seed) : random(seed) {}

  FakeNic* nic = nullptr;
  int ordinal = 0;
  ibv_qp_cap limits{};
  bool all_signaled = false;
  std::atomic<int> unacknowledged{0};

  ibv_qp_state now = IBV_QPS_RESET;  ///< `state` is what the user last set
  ibv_qp_attr attributes{};          ///< those that were set
  FakeNic* remote = nullptr;         ///< where its address leads; null: nowhere
  std::uint8_t remote_port = 0;

  std::deque<Send> sends;
  std::deque<Receive> receives;
  std::deque<Finished> finished;  ///< completions that wait for their time
  std::uint64_t posted = 0;
  std::atomic<std::uint64_t> reclaimed{0};       ///< of the posted
  std::atomic<std::int64_t> completions_due{0};  ///< of signaled sends, not yet polled
  std::atomic<std::int64_t> receives_taken{0};   ///< places of the receive queue
  Random random;
  Time wakes = Time::max();
  bool queued = false;  ///< to be looked at by the engine
};

struct FakePort {
  PortSpec spec;
  std::uint16_t lid = 0;
};

struct FakeNic {
  FakeNic(int owner, NicSpec what) : rank(owner), spec(std::move(what)) {}

  const int rank;
  NicSpec spec;
  std::uint64_t seed = 0;
  FakeDevice device{};
  ibv_context of_manager{};  ///< the connection manager's own, to name the device by
  std::vector<FakePort> ports;
  std::vector<std::unique_ptr<FakeContext>> contexts;
  std::vector<std::unique_ptr<FakePd>> domains;
  std::vector<std::unique_ptr<FakeChannel>> channels;
  std::vector<std::unique_ptr<FakeCq>> rings;
  std::unordered_map<std::uint32_t, std::unique_ptr<FakeMr>> regions;  ///< by lkey
  std::unordered_map<std::uint32_t, FakeMr*> remote_keys;
  std::unordered_map<std::uint32_t, std::shared_ptr<FakeQp>> queue_pairs;  ///< by number
  std::uint64_t registered = 0;                                            ///< bytes
  std::uint32_t next_queue_pair = 17;
  int queue_pairs_made = 0;
  std::uint64_t posted = 0;  ///< work requests, to all send queues
  bool isolated = false;
  bool held = false;
  bool dead = false;
  NicCounts counts;
};

}  // namespace weft::p2p::verbs::fake
