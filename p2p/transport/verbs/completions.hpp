// Completion queues, and who looks at them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/poll_lock.hpp"

namespace weft::p2p::verbs {

class QueuePair;

/// A device's completion queues. Queue pairs are bound to them round-robin. Each queue has a thread
/// that polls it and sleeps on its completion channel; with WEFT_CQS=0 there is one queue and no
/// thread: the waiting thread polls, and the progress thread polls when no thread waits.
/// Thread-safe.
class Completions final : public Poller {
 public:
  /// All must outlive it. `peers`, the most at a time, decides how deep the queues are.
  /// Throws Error(system | exhausted).
  Completions(Device& device, LocalRank& local, ProgressThread& progress, int peers);
  /// The progress thread must have stopped; no queue pair is bound any more.
  ~Completions() override;

  /// Work requests that one queue pair may have under way without overrunning its queue.
  std::uint32_t depth() const noexcept { return depth_; }
  /// The queue for the next queue pair: the one with the fewest. Throws Error(exhausted) when all
  /// have as many as they were made for.
  std::size_t choose();
  ibv_cq* queue(std::size_t index) const noexcept { return queues_[index]->cq.get(); }
  /// Completions of the queue pair go to it from now on, until unbind() has returned.
  void bind(std::size_t queue, QueuePair& pair);
  void unbind(QueuePair& pair) noexcept;
  /// "queue 0: rank 1 #0, rank 2 #0; queue 1: ...": which queue pair is bound to which queue.
  std::string binding_table() const;

  bool poll() noexcept override;
  void poll_once() noexcept override;
  void catch_up() noexcept override;
  void arm() noexcept override;
  /// For who needs room that completions give back: looks, or lets those look that do.
  void help() noexcept;
  /// Handles everything that has completed by now, even if another thread is polling: at most what
  /// the queues hold.
  void drain() noexcept;
  /// A send waits for room and perhaps no thread is polling: polls soon.
  void schedule_poll() noexcept;
  /// Before anything is bound: called, with no queue's lock held, whenever a thread
  /// looks because of schedule_poll().
  void on_poll(std::function<void()> poll_hook) { poll_ = std::move(poll_hook); }

  /// From now on `stop()` the threads are gone and only drain() polls.
  void stop() noexcept;

 private:
  struct Queue {
    CompletionEvents events;
    CompletionQueue cq;
    int depth = 0;
    PollLock mutex;  ///< held while its completions are handled
    std::unordered_map<std::uint32_t, QueuePair*> pairs;  ///< by number
    QueuePair* last = nullptr;                            ///< the one whose completion came last
    std::vector<QueuePair*> owing;  ///< perhaps: those with receives to be posted again
    std::atomic<bool> armed{false};
    std::thread thread;
  };

  /// How soon the progress thread looks again after the waiters: soon at first, and later the
  /// longer a thread has polled without a break, since each look takes a processor from those that
  /// poll.
  static constexpr long kFirstTickNanoseconds = 500'000;
  static constexpr long kLongestTickNanoseconds = 2'000'000;

  void make_queue(int depth);
  /// With the queue's lock held. How many completions there were.
  static QueuePair* pair_of(Queue& queue, std::uint32_t number) noexcept;
  int poll(Queue& queue) noexcept;
  void handle(Queue& queue, std::span<const ibv_wc> done) noexcept;
  static void end_batch(Queue& queue, QueuePair& pair) noexcept;
  bool try_poll(Queue& queue) noexcept;
  /// False: there may be more completions, for which no event will be raised.
  bool arm(Queue& queue) noexcept;
  void take_events(Queue& queue) noexcept;
  void watch();
  void tick_after(long nanoseconds) noexcept;
  void tick() noexcept;
  void run(Queue& queue) noexcept;

  Device& device_;
  Verbs& verbs_;
  LocalRank& local_;
  ProgressThread& progress_;
  const bool inline_;
  std::uint32_t depth_ = 0;
  std::size_t most_ = 0;  ///< queue pairs of one queue
  std::vector<std::unique_ptr<Queue>> queues_;
  os::Fd timer_;
  os::Fd stop_;
  std::function<void()> poll_;
  long tick_ns_ = kFirstTickNanoseconds;  ///< the progress thread's
  std::atomic<bool> polled_{false};       ///< a thread has polled since the last tick
  std::atomic<bool> wanted_{false};       ///< a thread called schedule_poll() since the last tick
  std::atomic<bool> stopping_{false};
};

}  // namespace weft::p2p::verbs
