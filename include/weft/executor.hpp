// The executor of dataflow graphs: kernels, and a rank's share of a training loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/api.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/executor_report.hpp"
#include "weft/partition.hpp"
#include "weft/tensor.hpp"

namespace weft {
class World;
}

namespace weft::dataflow {

/// The arguments of a kernel: a node, its inputs, and the memory of its outputs. Valid during the
/// call.
class WEFT_API KernelCall {
 public:
  /// Returns the memory of an output: dense, of that dtype and shape.
  using Allocate = std::function<Tensor(std::size_t output, DType dtype, const Shape& shape)>;
  /// Returns memory for allocate().
  using AllocateOwn = std::function<Tensor(DType dtype, const Shape& shape)>;

  /// Throws Error(bad_argument) if `outputs` is empty; without `own`, allocate() gives plain
  /// memory. `node` must outlive the call.
  KernelCall(const Node& node, std::vector<Tensor> inputs, Allocate outputs, AllocateOwn own = {},
             std::uint64_t step = 0);

  const std::string& node() const noexcept { return node_.name; }
  /// The number of the step, from 0: Executor::step(). With it a kernel draws other random numbers
  /// in each step, and the same ones after a restart from a checkpoint.
  std::uint64_t step() const noexcept { return step_; }
  const Attributes& attributes() const noexcept { return node_.attributes; }
  std::size_t inputs() const noexcept { return inputs_.size(); }
  /// False for an optional input that is left out.
  bool has(std::size_t i) const noexcept;
  /// Input `i`, dense, which must not be written. Requires has(i).
  const Tensor& input(std::size_t i) const noexcept { return inputs_[i]; }
  std::size_t outputs() const noexcept { return outputs_.size(); }
  /// The memory of output `i`, not initialised, of the shape that follows from the inputs. It is an
  /// input's memory where the definition says that it must or may be. Throws Error(bad_argument),
  /// naming the node, if the shape depends on values: the kernel must give it then.
  const Tensor& output(std::size_t i);
  /// The same for a shape that the kernel gives. Throws Error(mismatch), naming the node, if the
  /// graph says otherwise.
  const Tensor& output(std::size_t i, DType dtype, const Shape& shape);
  /// Memory that the kernel allocates itself, for outputs that lie in it (give()) and for work:
  /// dense, not initialised, freed with its last tensor. The executor traces each allocation by
  /// node and number: once one was sent, the next steps allocate it where it is sent without a
  /// copy, so allocate in an order that doesn't change. Throws Error(exhausted), std::bad_alloc.
  Tensor allocate(DType dtype, const Shape& shape);
  /// Output `i` is `tensor`, which other nodes may overwrite: a part of allocate()'s, or memory of
  /// the user's, which must stay as it is until the step ends. Throws Error: mismatch (dtype or
  /// shape), bad_argument (not dense, or without memory; memory of an input or of another output;
  /// an output that has an input's memory by definition); all name the node.
  void give(std::size_t i, const Tensor& tensor);
  /// The outputs, those not asked for without memory.
  const std::vector<std::optional<Tensor>>& results() const noexcept { return outputs_; }

 private:
  const Shape& inferred(std::size_t i);
  void check_type(std::size_t i, DType dtype, const Shape& shape) const;
  void check_memory(std::size_t i, const Tensor& tensor) const;

  const Node& node_;
  std::vector<Tensor> inputs_;
  Allocate allocate_;
  AllocateOwn allocate_own_;
  std::uint64_t step_;
  std::vector<std::optional<Tensor>> outputs_;
  std::vector<std::optional<Shape>> shapes_;  ///< empty until one is asked for
};

/// Computes the outputs of a node. Called by any of the executor's threads, for several nodes at
/// once; must not call weft except through the call. An exception ends the step. One that waits for
/// something outside holds its thread (ExecutorOptions::threads); sends and receives hold none.
using Kernel = std::function<void(KernelCall&)>;

/// Kernels by definition and memory, apart from definitions. A user's own are equal to all others.
/// Thread-safety: a value; reading from several threads is allowed.
class WEFT_API Kernels {
 public:
  /// Throws Error(duplicate_name) if there is one for both, Error(bad_argument) if it is empty.
  void add(const std::string& definition, Kernel kernel, Memory memory = Memory::host);
  /// Null if there is none.
  const Kernel* find(std::string_view definition, Memory memory = Memory::host) const noexcept;

 private:
  std::map<std::pair<std::string, Memory>, Kernel, std::less<>> kernels_;
};

/// Tensors by the name of a feed or fetch.
using Tensors = std::map<std::string, Tensor, std::less<>>;

/// The memory of tensors that other ranks get. All but the first are there to compare.
enum class SentMemory : std::uint8_t {
  /// In the arena, from which nothing is copied: outputs that the graph says are sent, and, of what
  /// kernels allocate themselves, the sites whose tensors were sent in an earlier step.
  arena,
  /// Sites whose tensors were sent in an earlier step; the graph tells feeds and variables alone
  /// (the paper, 3.4).
  traced,
  /// Registered one by one where they are allocated, as the graph says (the poster).
  registered,
  /// Staged by each send, which counts it as copied (the paper's RDMA.cp).
  plain
};

/// How tensors go from rank to rank. The bits are the same.
enum class EdgeWay : std::uint8_t {
  views,      ///< viewed by ranks that share memory with the producer, wherever the plan allows it;
              ///< other edges are slots
  slots,      ///< each edge is a slot
  rendezvous  ///< each tensor is asked for by edge and step, and written into new memory
};

struct ExecutorOptions {
  /// Tells executors of one world apart; equal on all ranks.
  std::string name = "graph";
  /// Threads that run nodes beside the one that calls run().
  int threads = 0;
  /// The largest MemoryNeed::total() of a rank, in bytes; 0: no limit.
  std::uint64_t arena_bytes = 0;
  SentMemory sent = SentMemory::arena;
  EdgeWay way = EdgeWay::views;  ///< equal on all ranks
  /// For the start: agreement of all ranks, and attaching to their slots.
  Deadline start{};
};

/// Runs this rank's share of a graph, step by step. Every rank makes one of the same graph.
///
/// weft/variables.hpp has updates of variables by optimizers, their checkpoints, and variables in
/// tables of the parameter server.
///
/// Kernels are called for all definitions but these, which the executor runs itself: feeds,
/// variables, fetches, "weft.Assign", sends, receives, and those whose outputs are all aliases.
/// All tensors are in host memory. Feeds and variables that other ranks view are in published slots
/// (Plan): their memory must not be used after the executor.
///
/// After a failed step the executor is over: the ranks that it has edges with are told, their steps
/// end too, and every further run() returns the same error. Destruction waits until the ranks that
/// view this one's tensors, or by EdgeWay::rendezvous all that it has edges with, have ended the
/// steps that it has run, are gone or have failed; at most for WEFT_TIMEOUT, which is logged.
/// Thread-safety: one thread at a time.
class WEFT_API Executor {
 public:
  /// Partitions the graph over all ranks of the world, compares it with theirs, and exposes and
  /// attaches the slots of all edges. Every rank must call it, and fails if one does; ranks make
  /// several executors of one world one after the other, in the same order. Throws Error:
  /// mismatch (names the first node that differs, or a rank with another `way`), bad_argument
  /// (names the node: a missing kernel, or whatever partition() refuses), duplicate_name (there is
  /// an executor of that name), exhausted (the plan needs more than `arena_bytes`, or than
  /// WEFT_ARENA_MAX leaves, with the bytes of each such rank), timeout, peer_failed, peer_left.
  Executor(World& world, const Graph& graph, Kernels kernels, const ExecutorOptions& options = {});
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  const Plan& plan() const noexcept;

  /// Memory for a feed of this rank's next step, from which it is sent without a copy. If the shape
  /// is static, it is the same memory in each step. Throws Error: bad_argument (no such feed on
  /// this rank, or an open shape), mismatch.
  Tensor feed(std::string_view name);
  /// The same for a shape with open sizes, in new memory.
  Tensor feed(std::string_view name, const Shape& shape);
  /// The memory of a variable of this rank, which it keeps; zeros at first. Between steps it may be
  /// read and written. Throws Error(bad_argument).
  Tensor variable(std::string_view name);

  /// Lets a variable of this rank live in `memory`, such as a parameter of a table, from the next
  /// step on, with the values that are there. Between steps, also again. The executor shares the
  /// memory's ownership; wrapped memory must outlive it. Throws Error: bad_argument (no such
  /// variable, or memory that is not dense; for a variable that is sent to other ranks, memory that
  /// is not by World::allocate; for one that they view, any), mismatch (dtype or shape).
  void bind(std::string_view variable, const Tensor& memory);

  /// The number of the next step: 0 at first, then one more after each.
  std::uint64_t step() const noexcept;
  /// Makes `step` the number of the next step, for a trainer that goes on from a checkpoint. Every
  /// rank gives the same. Between steps.
  void resume(std::uint64_t step) noexcept;

  /// Runs one step with a tensor for each feed of this rank, and returns copies of its fetches. A
  /// feed in other memory than feed() gave is copied if it is sent or viewed. Ends at the deadline
  /// at the latest, or when a kernel that runs then has returned. Errors name the node, and the
  /// edge and its rank where there is one: bad_argument (a missing feed, or a name that is no feed
  /// here), mismatch (dtype or shape of a feed or of a kernel's result), timeout, peer_failed,
  /// peer_left, closed (another rank's step failed), system (a kernel threw), exhausted, forked.
  /// The first two end no step if they are about feeds.
  Result<Tensors> run(const Tensors& feeds = {}, Deadline deadline = {}) noexcept;

  ExecutorCounters counters() const noexcept;
  /// Counters and costs so far. Between steps. Throws Error(exhausted).
  ExecutorReport report() const;

 private:
  friend struct ExecutorAccess;
  struct State;
  explicit Executor(std::shared_ptr<State> state) noexcept;
  std::shared_ptr<State> state_;
};

}  // namespace weft::dataflow
