// One step after the other: the queue of ready nodes, and the threads that run them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/dataflow/execute/activity.hpp"
#include "runtime/dataflow/execute/edge_ends.hpp"
#include "runtime/dataflow/execute/neighbours.hpp"
#include "runtime/dataflow/execute/program.hpp"
#include "runtime/dataflow/execute/tensor_memory.hpp"

namespace weft::dataflow {

/// Runs a program. A transfer that has not ended goes to the tail of the queue, so it is probed at
/// most once per turn of the queue (polling-async; source: the paper, section 4). With nothing but
/// transfers in the queue, one thread waits for the network, and the others for that thread.
class StepRunner {
 public:
  StepRunner(World& world, const Plan& plan, const std::vector<Instruction>& program,
             TensorMemory& memory, Ends& ends, Neighbours& neighbours, ExecutorStats& shown);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// Throws std::system_error.
  void start_threads(int threads);
  /// Has one tensor for each feed, by node.
  Result<Tensors> run(const std::vector<Tensor>& feeds, Deadline deadline);
  ExecutorCounters counters() const;
  /// The number of the next step; set between steps.
  std::uint64_t step() const noexcept { return step_.number; }
  void set_step(std::uint64_t step) noexcept { step_.number = step; }
  Activity activity() const;
  bool has_failed() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// The step that runs, or comes next.
  struct Step {
    std::uint64_t number = 0;
    Deadline deadline{};
  };
  struct Entry {
    NodeId node = -1;
    bool is_under_way = false;  ///< a transfer that was begun and has not ended
    bool is_due = false;        ///< the network says that it ends now
  };

  void begin_step();
  /// `thread`: its number; 0 is the one that calls run().
  void serve(int thread);
  void take_turns(Lock& lock, int thread);
  void idle(Lock& lock);
  void watch_network(Lock& lock);
  void enqueue(Entry entry);
  /// A transfer goes to the tail: it has not ended.
  void put_off(Entry entry);
  Awaited awaited(NodeId node) noexcept;
  /// Wakes a thread for the nodes that are left in the queue.
  void call_helper();
  void wake_watcher();
  void complete(NodeId node);
  /// News of a rank whose memory `node` has viewed. Then the memory may have been overwritten
  /// meanwhile.
  std::optional<Neighbours::News> news_of_viewed(NodeId node) const noexcept;
  /// `node`: the one that failed, of the part of the rank at fault; -1: none in particular.
  void fail(const Status& status, NodeId node = -1);
  void fail_at(NodeId node, const Status& status);

  bool is_over() const noexcept { return left_ == 0 || !failure_.ok(); }
  std::optional<std::size_t> edge_of(NodeId node) const {
    return at(node).peer < 0 ? std::nullopt : std::optional(at(node).edge);
  }
  const Instruction& at(NodeId node) const { return program_[static_cast<std::size_t>(node)]; }

  /// Runs or probes a node, without the lock. False: it is still under way.
  Result<bool> advance(const Entry& entry) noexcept;
  Status compute(NodeId node);
  Result<bool> send(const Entry& entry);
  Result<bool> receive(const Entry& entry);
  Tensor output_memory(NodeId node, const std::vector<Tensor>& inputs, std::size_t output,
                       DType dtype, const Shape& shape);
  std::vector<Tensor> inputs_of(NodeId node) const;
  void run_kernel(NodeId node);
  void alias(NodeId node);
  void assign(NodeId node);
  void fetch(NodeId node);

  Status about(NodeId node, const Status& status) const noexcept;
  std::string place_of(NodeId node) const;
  Status late() noexcept;
  Status told(const Neighbours::News& news) const noexcept;
  std::string story_of(const Neighbours::News& news) const;
  /// As errors name the step.
  std::string operation() const { return "step " + std::to_string(step_.number); }

  World& world_;
  const Plan& plan_;
  const std::vector<Instruction>& program_;
  TensorMemory& memory_;
  Ends& ends_;
  Neighbours& neighbours_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  std::size_t runnable_ = 0;  ///< entries that are not under way, or due
  std::size_t left_ = 0;      ///< nodes of the step that have not ended
  int running_ = 0;           ///< threads that run a node or watch the network
  int idle_ = 0;              ///< threads that wait for `changed_` within a step
  bool is_watched_ = false;   ///< a thread waits for the network
  std::atomic<bool> is_woken_{false};
  Status failure_;
  Step step_;
  std::vector<int> waits_;                   ///< by node: earlier nodes that have not ended
  std::vector<int> users_;                   ///< by receive: readers that have not ended
  std::vector<std::vector<Tensor>> values_;  ///< by node and output
  std::vector<Entry> watched_;               ///< belongs to the thread that watches
  Tensors fetched_;
  Activity activity_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::dataflow
