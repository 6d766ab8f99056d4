// The network between NICs: which thread does the work, and when.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "p2p/transport/verbs/fake/fake_cm_exchange.hpp"
#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "p2p/transport/verbs/fake/objects.hpp"

namespace weft::p2p::verbs::fake {

/// One mutex for all NICs. A caller that changes something while holding it, and so makes work
/// possible, ends with run(); a thread of its own does what is due later.
class Engine {
 public:
  explicit Engine(const NetworkOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

  // All below: with the lock.
  const NetworkOptions& options() const noexcept { return options_; }
  FakeNic& add_nic(int rank, NicSpec spec);
  const std::vector<std::unique_ptr<FakeNic>>& nics() const noexcept { return nics_; }
  std::uint64_t random() noexcept { return random_.next(); }
  GpuMemory* gpus() const noexcept { return options_.gpus.get(); }
  FakeCmExchange& exchange() noexcept { return exchange_; }

  /// Counts the call. An errno if it is to be refused, or 0.
  int refused(FakeNic& nic, VerbsCall call);
  void tamper(std::function<void(int from, std::span<std::byte> message)> change) {
    tamper_ = std::move(change);
  }
  void complain(const std::string& what) { complaints_ += what + "\n"; }
  const std::string& complaints() const noexcept { return complaints_; }

  /// There may be something to do for the queue pair, for whoever sends to it, for all.
  void look_at(FakeQp& qp);
  void look_at_sender_to(FakeQp& qp);
  void look_at_all();
  /// Does all that can be done now.
  void run();

  void post(FakeQp& qp, Send send);
  void post_receive(FakeQp& qp, Receive receive);
  /// Where the queue pair's address leads.
  void find_remote(FakeQp& qp) const;
  /// In error from now on: what is posted is flushed, nothing arrives any more.
  void fail(FakeQp& qp);
  /// Back at the beginning: what is posted is forgotten, and so are its completions.
  void reset(FakeQp& qp);
  /// For a queue pair or a completion queue, made from `context`.
  static void raise(ibv_context* context, const ibv_async_event& event);
  /// For a port, or the whole NIC.
  static void raise(FakeNic& nic, const ibv_async_event& event);

 private:
  /// How far the first work request of a queue got.
  struct Step {
    bool ended = false;
    ibv_wc_status status = IBV_WC_SUCCESS;
    Time again = Time::max();  ///< if not ended: look again then, or when something changes
    FakeQp* breaks = nullptr;  ///< the peer, which is in error too
  };

  void work();
  void at(Time when, std::function<void()> act);
  void wake(FakeQp& qp, Time when);
  void advance(FakeQp& qp);
  Step carry_out(FakeQp& qp, Send& send, Time now);
  Step carry(FakeQp& qp, Send& send, FakeQp& peer, Time now);
  Step silence(FakeQp& qp, Send& send, Time now);
  Step await_receive(FakeQp& qp, Send& send, Time now);
  /// All of the payload, or its next part; whether there is more.
  bool land(FakeQp& qp, Send& send) const;
  void land_later(FakeQp& qp, const Send& send, FakeQp& peer, Time now);
  /// Its packets may be on their way when the queue pair fails.
  void straggle(FakeQp& qp, const Send& send);
  static void draw_outcome(FakeQp& qp, Send& send);
  /// Uses up the peer's first receive. Returns the status of the sender's work.
  ibv_wc_status take_receive(FakeQp& peer, const Send& send);
  /// The queue pair that its address leads to, if there is one.
  static FakeQp* partner_of(const FakeQp& qp);
  /// The same if it is connected to this one, and would answer now.
  static FakeQp* peer_of(const FakeQp& qp);
  void end(FakeQp& qp, Send send, ibv_wc_status status);
  void deliver(FakeQp& qp, Time now);
  void complete(FakeCq& cq, const Completion& completion);
  void flush(FakeQp& qp);
  void fail_users_of(const FakeCq& cq);

  const NetworkOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Time, std::function<void()>> timers_;
  std::deque<FakeQp*> ready_;
  std::vector<const FakeCq*> overrun_;  ///< since the last run()
  std::vector<std::unique_ptr<FakeNic>> nics_;
  std::string complaints_;
  std::function<void(int, std::span<std::byte>)> tamper_;
  FakeCmExchange exchange_;
  Random random_;
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace weft::p2p::verbs::fake
