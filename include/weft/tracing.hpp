// Allocation sites: memory for a trainer's own engine that learns which allocations are sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/api.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft {
class World;
}

namespace weft::dataflow {

/// The memory that a TracingAllocator gives.
enum class TracingMode : std::uint8_t {
  sites,      ///< registered if a tensor of the site was sent in an earlier step (the paper, 3.4)
  cut_edges,  ///< registered one by one if mark_cut() named the site: to compare (the poster)
  off         ///< plain; every tensor that is sent is copied: to compare (the paper's RDMA.cp)
};
/// The mode's name, e.g. "sites".
WEFT_API std::string_view name(TracingMode mode) noexcept;

struct TracingOptions {
  TracingMode mode = TracingMode::sites;
  /// The largest number of sites, and of nodes.
  std::size_t max_sites = 65'536;
};

/// Counts of a TracingAllocator so far.
struct TracingCounters {
  std::uint64_t steps = 0;                   ///< that have ended: next_step()
  std::uint64_t plain_allocations = 0;       ///< in plain memory
  std::uint64_t registered_allocations = 0;  ///< in the arena, or registered one by one
  std::uint64_t sends = 0;                   ///< to_send()
  std::uint64_t copies = 0;                  ///< by to_send()
  std::uint64_t bytes_copied = 0;            ///< by to_send()
  std::uint64_t registrations = 0;           ///< of allocations, one by one; the arena has its own
  std::uint64_t sites = 0;
  std::uint64_t sent_sites = 0;  ///< the paper's set S: sites whose tensors were sent
  std::uint64_t late_sites = 0;  ///< those of them that were not sent in the first step
};

/// One allocation site.
struct TracedSite {
  std::string node;
  std::uint32_t allocation = 0;  ///< its index among the allocations of one run of the node, from 0
  std::uint64_t allocations = 0;  ///< so far
  std::uint64_t copies = 0;       ///< of its tensors, by to_send()
  std::uint64_t bytes_copied = 0;
  std::uint64_t sent_in = 0;  ///< the first step that sent a tensor of it, from 1; 0: none did
};

/// The sites that a TracingAllocator has met, and what they cost.
struct WEFT_API TracingReport {
  int rank = -1;
  TracingMode mode = TracingMode::sites;
  TracingCounters counters;
  std::vector<TracedSite> sites;  ///< nodes in the order in which they were first named

  /// One line per site that was sent, and one of all.
  std::string text() const;
  /// {"version": 1, "rank", "mode", "steps", "plain_allocations", "registered_allocations",
  /// "sends", "copies", "bytes_copied", "registrations", "sent_sites", "late_sites", "sites":
  /// [{"node", "allocation", "allocations", "copies", "bytes_copied", "sent_in"}]}
  std::string json() const;
};

class TracingAllocator;

namespace detail {
struct TracedNode;
class TracingState;
}  // namespace detail

/// While one lives, its node runs on this thread: allocations are the node's. On the stack of one
/// thread; may stand within another one's life, whose node then waits. Made by
/// TracingAllocator::enter().
class [[nodiscard]] WEFT_API RunningNode {
 public:
  RunningNode(const RunningNode&) = delete;
  RunningNode& operator=(const RunningNode&) = delete;
  ~RunningNode();

 private:
  friend class TracingAllocator;
  RunningNode(std::shared_ptr<detail::TracingState> state, detail::TracedNode& node) noexcept;

  const std::shared_ptr<detail::TracingState> state_;
  detail::TracedNode& node_;
  std::uint32_t next_ = 0;  ///< allocation
  RunningNode* outer_;
};

/// Memory for tensors, in the rank's registered arena where a tensor is going to be sent and plain
/// elsewhere, without a graph that says so. An allocation's site is the node that runs and the
/// number of the node's allocations before it. A storage remembers its site, so tensors that
/// operators in place, aliases and slices pass on lead back to it. Once a tensor of a site was
/// sent, the site's allocations are registered from the next step on, and sent without a copy.
/// Source: the paper, section 3.4.
///
///     auto running = tracer.enter("backward");
///     Tensor gradient = tracer.allocate(DType::f32, {1000});
///     ...
///     remote.put(tracer.to_send(gradient));
///     ...
///     tracer.next_step();
///
/// Tensors may outlive it and the world. In a fork of the process every call that may throw fails
/// with Code::forked, after the world's end with Code::closed. Thread-safety: every member may be
/// called concurrently, except destruction; a node runs on one thread at a time.
class WEFT_API TracingAllocator {
 public:
  /// Throws Error: bad_argument (`options`), forked.
  explicit TracingAllocator(World& world, const TracingOptions& options = {});
  TracingAllocator(TracingAllocator&&) noexcept;
  TracingAllocator& operator=(TracingAllocator&&) noexcept;
  ~TracingAllocator();

  /// The node of that name runs on this thread until the result is destroyed; its allocations are
  /// counted from 0. The first call with a name makes the node. Throws Error: bad_argument (an
  /// empty name, or one of more than 200 bytes; a node that runs already, named), exhausted (more
  /// nodes than `max_sites`).
  RunningNode enter(std::string_view node);

  /// A dense tensor, 64-byte aligned, not initialised; the memory lives as long as its last tensor.
  /// Throws Error: bad_argument (this thread runs no node), exhausted (memory, the arena, or more
  /// sites than `max_sites`; names the node), forked.
  Tensor allocate(DType dtype, const Shape& shape);

  /// A tensor of the same elements that no put has to copy, except for strides into a dynamic slot:
  /// `tensor` itself where it lies in the arena, in memory that was registered one by one, or in
  /// other memory that the world reaches without a copy (World::allocate, World::adopt); otherwise
  /// a dense copy in the arena, counted. A tensor that outlives steps may be replaced by the
  /// result, and is copied once then. With TracingMode::off always a copy. Throws Error:
  /// bad_argument (a tensor without memory, of memory that neither this allocator nor the world
  /// gave, or of another allocator), exhausted, forked.
  Tensor to_send(const Tensor& tensor);

  /// Names a site whose tensors cross ranks, for TracingMode::cut_edges: its later allocations are
  /// registered. Other modes find sites by themselves and ignore it. Throws Error: as enter(),
  /// except for a node that runs.
  void mark_cut(std::string_view node, std::uint32_t allocation);

  /// Ends a step: sites that it sent are registered from now on. Throws Error(bad_argument), naming
  /// a node that still runs.
  void next_step();

  /// Exact while no other call is under way.
  TracingCounters counters() const noexcept;
  /// Throws Error(exhausted).
  TracingReport report() const;

 private:
  std::shared_ptr<World> world_;
  std::shared_ptr<detail::TracingState> state_;
};

}  // namespace weft::dataflow
