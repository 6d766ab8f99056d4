#include "runtime/dataflow/execute/tracing_state.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "base/fail.hpp"
#include "runtime/dataflow/execute/tensor_memory.hpp"

namespace weft::dataflow::detail {
namespace {

/// Plain memory that leads to the site of its allocation.
class TracedStorage final : public PlainStorage {
 public:
  TracedStorage(std::size_t bytes, const TracingState& state, Site& site)
      : PlainStorage(bytes), state_(state), site_(site) {}

  const TracingState& state() const noexcept { return state_; }
  Site& site() const noexcept { return site_; }

 private:
  const TracingState& state_;
  Site& site_;
};

/// For the one block that shared_ptr has for a TracedStorage and its counts. Keeps the state alive.
template <typename T>
class PoolAllocator {
 public:
  using value_type = T;

  explicit PoolAllocator(std::shared_ptr<TracingState> state) noexcept : state_(std::move(state)) {}
  template <typename U>
  explicit PoolAllocator(const PoolAllocator<U>& other) noexcept : state_(other.state_) {}

  T* allocate(std::size_t count) { return static_cast<T*>(state_->pool().take(count * sizeof(T))); }
  void deallocate(T* block, std::size_t) noexcept { state_->pool().give_back(block); }
  template <typename U>
  bool operator==(const PoolAllocator<U>& other) const noexcept {
    return state_ == other.state_;
  }

 private:
  template <typename U>
  friend class PoolAllocator;
  std::shared_ptr<TracingState> state_;
};

}  // namespace

BlockPool::~BlockPool() {
  if (fork_mark_.forked()) return;
  while (free_ != nullptr) ::operator delete(std::exchange(free_, free_->next));
}

void* BlockPool::take(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (free_ != nullptr) return std::exchange(free_, free_->next);
  }
  return ::operator new(bytes);
}

void BlockPool::give_back(void* block) noexcept {
  if (fork_mark_.forked()) return;
  const std::lock_guard lock(mutex_);
  free_ = new (block) Free{free_};
}

TracedNode& TracingState::node(std::string_view name) {
  const std::lock_guard lock(nodes_mutex_);
  if (const auto found = by_name_.find(name); found != by_name_.end()) return *found->second;
  if (nodes_.size() == options_.max_sites)
    throw_error(Code::exhausted, "tracing",
                fmt::format("node \"{}\" would be number {}", name, nodes_.size() + 1),
                "raise TracingOptions::max_sites, or give nodes the same name in each step");
  TracedNode& made = nodes_.emplace_back(name);
  try {
    by_name_.emplace(made.name, &made);
  } catch (...) {
    nodes_.pop_back();
    throw;
  }
  return made;
}

Site& TracingState::site(TracedNode& node, std::uint32_t allocation) {
  const std::lock_guard lock(node.mutex);
  if (allocation < node.sites.size()) [[likely]]
    return node.sites[allocation];
  const std::uint64_t more = std::uint64_t{allocation} + 1 - node.sites.size();
  if (sites_.fetch_add(more) + more > options_.max_sites) {
    sites_ -= more;
    throw_error(Code::exhausted, "tracing",
                fmt::format("allocation {} of node \"{}\" would be one of more than {} sites",
                            allocation, node.name, options_.max_sites),
                "raise TracingOptions::max_sites, or enter a node anew for each round of a loop");
  }
  const std::size_t before = node.sites.size();
  try {
    for (std::size_t i = before; i <= allocation; ++i)
      node.sites.push_back({.node = node, .allocation = static_cast<std::uint32_t>(i)});
  } catch (...) {
    sites_ -= before + more - node.sites.size();
    throw;
  }
  return node.sites[allocation];
}

void TracingState::mark_cut(Site& site) noexcept {
  const std::lock_guard lock(site.node.mutex);
  site.is_cut = true;
}

SiteMemory TracingState::memory_of(Site& site) noexcept {
  const std::lock_guard lock(site.node.mutex);
  if (options_.mode == TracingMode::cut_edges && site.is_cut) return SiteMemory::registered_alone;
  // All allocations of a site in one step are in one kind of memory, whenever it was first sent.
  const bool was_sent = site.sent_in != 0 && site.sent_in < step_.load();
  return options_.mode == TracingMode::sites && was_sent ? SiteMemory::arena : SiteMemory::plain;
}

void TracingState::count_allocation(Site& site, SiteMemory memory) noexcept {
  ++(memory == SiteMemory::plain ? plain_ : registered_);
  if (memory == SiteMemory::registered_alone) ++registrations_;
  const std::lock_guard lock(site.node.mutex);
  ++site.allocations;
}

Tensor TracingState::plain_tensor(Site& site, std::size_t bytes, DType dtype, const Shape& shape) {
  auto storage = std::allocate_shared<TracedStorage>(
      PoolAllocator<TracedStorage>(shared_from_this()), bytes, *this, site);
  return {std::move(storage), 0, dtype, shape};
}

Site* TracingState::find_site(const Tensor& tensor) const noexcept {
  const auto* const storage = dynamic_cast<const TracedStorage*>(tensor.storage().get());
  return storage != nullptr && &storage->state() == this ? &storage->site() : nullptr;
}

Site* TracingState::site_of(const Tensor& tensor) const {
  const auto* const storage = dynamic_cast<const TracedStorage*>(tensor.storage().get());
  if (storage == nullptr) return nullptr;
  Site& site = storage->site();
  if (&storage->state() != this)
    throw_error(Code::bad_argument, "to_send",
                fmt::format("{} is of another TracingAllocator: allocation {} of its node \"{}\"",
                            tensor.text(), site.allocation, site.node.name),
                "call to_send() of the allocator that the tensor came from");
  return &site;
}

void TracingState::note_sent(Site& site) noexcept {
  const std::lock_guard lock(site.node.mutex);
  if (site.sent_in != 0) return;
  site.sent_in = step_.load();
  ++sent_sites_;
  if (site.sent_in > 1) ++late_sites_;
}

void TracingState::count_copy(Site* site, std::size_t bytes) noexcept {
  ++copies_;
  bytes_copied_ += bytes;
  if (site == nullptr) return;
  const std::lock_guard lock(site->node.mutex);
  ++site->copies;
  site->bytes_copied += bytes;
}

void TracingState::start(TracedNode& node) {
  if (node.runs.exchange(true))
    throw_error(Code::bad_argument, "tracing", fmt::format("node \"{}\" runs already", node.name),
                "end a node's run before the next one; name nodes that run at once apart");
  ++running_;
}

void TracingState::end(TracedNode& node) noexcept {
  --running_;
  node.runs = false;
}

void TracingState::next_step() {
  if (running_.load() != 0) {
    const std::lock_guard lock(nodes_mutex_);
    for (const TracedNode& node : nodes_)
      if (node.runs)
        throw_error(Code::bad_argument, "next_step",
                    fmt::format("node \"{}\" still runs", node.name),
                    "end all nodes of a step before its end");
  }
  ++step_;
}

TracingCounters TracingState::counters() const noexcept {
  return {.steps = step_ - 1,
          .plain_allocations = plain_,
          .registered_allocations = registered_,
          .sends = sends_,
          .copies = copies_,
          .bytes_copied = bytes_copied_,
          .registrations = registrations_,
          .sites = sites_,
          .sent_sites = sent_sites_,
          .late_sites = late_sites_};
}

TracingReport TracingState::report() {
  TracingReport report{.mode = options_.mode, .counters = counters(), .sites = {}};
  const std::lock_guard lock(nodes_mutex_);
  for (TracedNode& node : nodes_) {
    const std::lock_guard node_lock(node.mutex);
    for (const Site& site : node.sites)
      report.sites.push_back({.node = node.name,
                              .allocation = site.allocation,
                              .allocations = site.allocations,
                              .copies = site.copies,
                              .bytes_copied = site.bytes_copied,
                              .sent_in = site.sent_in});
  }
  return report;
}

}  // namespace weft::dataflow::detail
