// The knowledge of a TracingAllocator: nodes, their sites, and the storages that lead to them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/os/fork_mark.hpp"
#include "weft/tracing.hpp"

namespace weft::dataflow::detail {

/// Guarded by its node's mutex.
struct Site {
  TracedNode& node;
  std::uint32_t allocation;
  std::uint64_t allocations = 0;
  std::uint64_t copies = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t sent_in = 0;  ///< as in TracedSite
  bool is_cut = false;
};

struct TracedNode {
  explicit TracedNode(std::string_view called) : name(called) {}

  const std::string name;
  std::atomic<bool> runs{false};
  std::mutex mutex;
  std::deque<Site> sites;  ///< by allocation
};

/// Recycles blocks of one size, so that tensors that come and go cost no allocation but their own
/// memory's. In a fork, where a thread that does not exist there may hold the mutex, blocks are
/// left as they are. Thread-safe.
class BlockPool {
 public:
  /// Throws Error(system).
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  /// All calls ask for the same number of bytes, at least a pointer's. Throws std::bad_alloc.
  void* take(std::size_t bytes);
  void give_back(void* block) noexcept;

 private:
  struct Free {
    Free* next;
  };
  const os::ForkMark fork_mark_;
  std::mutex mutex_;
  Free* free_ = nullptr;
};

enum class SiteMemory : std::uint8_t { plain, arena, registered_alone };

/// Lives as long as its allocator, a running node, or a tensor in plain memory. Thread-safe.
class TracingState : public std::enable_shared_from_this<TracingState> {
 public:
  explicit TracingState(const TracingOptions& options) : options_(options) {}

  TracingMode mode() const noexcept { return options_.mode; }
  /// The node of that name, made if there is none. Throws Error(exhausted).
  TracedNode& node(std::string_view name);
  /// Throws Error(exhausted).
  Site& site(TracedNode& node, std::uint32_t allocation);
  void mark_cut(Site& site) noexcept;
  SiteMemory memory_of(Site& site) noexcept;
  void count_allocation(Site& site, SiteMemory memory) noexcept;
  /// A tensor in plain memory that leads to `site`. Throws std::bad_alloc.
  Tensor plain_tensor(Site& site, std::size_t bytes, DType dtype, const Shape& shape);
  /// The site of a tensor in plain memory; null for other tensors. Throws Error(bad_argument) for
  /// one of another allocator.
  Site* site_of(const Tensor& tensor) const;
  /// The same; null too for one of another allocator.
  Site* find_site(const Tensor& tensor) const noexcept;
  void count_send() noexcept { sends_.fetch_add(1, std::memory_order_relaxed); }
  void note_sent(Site& site) noexcept;
  /// `site` may be null.
  void count_copy(Site* site, std::size_t bytes) noexcept;
  /// Throws Error(bad_argument) if the node runs already.
  void start(TracedNode& node);
  void end(TracedNode& node) noexcept;
  void next_step();

  TracingCounters counters() const noexcept;
  TracingReport report();
  BlockPool& pool() noexcept { return pool_; }

 private:
  using Count = std::atomic<std::uint64_t>;

  const TracingOptions options_;
  std::mutex nodes_mutex_;  ///< never taken while a node's is held
  std::deque<TracedNode> nodes_;
  std::unordered_map<std::string_view, TracedNode*> by_name_;
  Count running_{0};
  Count step_{1};
  Count plain_{0};
  Count registered_{0};
  Count sends_{0};
  Count copies_{0};
  Count bytes_copied_{0};
  Count registrations_{0};
  Count sites_{0};
  Count sent_sites_{0};
  Count late_sites_{0};
  BlockPool pool_;
};

}  // namespace weft::dataflow::detail
