#include "weft/tracing.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "base/tensor_checks.hpp"
#include "runtime/dataflow/execute/tensor_memory.hpp"
#include "runtime/dataflow/execute/tracing_state.hpp"
#include "runtime/world/world_state.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {
namespace {

/// The latest of this thread, of any allocator.
thread_local RunningNode* innermost = nullptr;

/// Before any mutex, which a thread may hold that does not exist in the fork.
void require_world(const std::shared_ptr<World>& world) {
  require_state(world, "TracingAllocator", "tracing");
  WorldAccess::usable(*world, "tracing");
}

std::string_view checked_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  if (name.empty() || name.size() > kLongest)
    throw_error(Code::bad_argument, "tracing",
                fmt::format("a node's name has 1 to {} bytes, not {}", kLongest, name.size()));
  return name;
}

/// The error of an allocation of `node` that is being handled.
[[noreturn]] void fail_for(const std::string& node) {
  throw Error(altered(caught_status(), [&](ErrorDetail& detail) {
    detail.operation = "allocate";
    if (detail.message.find('"' + node + '"') == std::string::npos)
      detail.message = fmt::format("node \"{}\": {}", node, detail.message);
  }));
}

}  // namespace

RunningNode::RunningNode(std::shared_ptr<detail::TracingState> state,
                         detail::TracedNode& node) noexcept
    : state_(std::move(state)), node_(node), outer_(std::exchange(innermost, this)) {}

RunningNode::~RunningNode() {
  // Not always the innermost: nodes may end in any order.
  for (RunningNode** at = &innermost; *at != nullptr; at = &(*at)->outer_)
    if (*at == this) {
      *at = outer_;
      break;
    }
  state_->end(node_);
}

TracingAllocator::TracingAllocator(World& world, const TracingOptions& options)
    : world_(std::make_shared<World>(WorldAccess::keep(world, "tracing"))) {
  if (options.mode > TracingMode::off || options.max_sites == 0)
    throw_error(Code::bad_argument, "tracing",
                fmt::format("there is no mode {}, or {} is no number of sites",
                            static_cast<int>(options.mode), options.max_sites),
                "use a value of TracingMode, and max_sites above 0");
  control_call("tracing", [&] { state_ = std::make_shared<detail::TracingState>(options); });
}

TracingAllocator::TracingAllocator(TracingAllocator&&) noexcept = default;
TracingAllocator& TracingAllocator::operator=(TracingAllocator&&) noexcept = default;
TracingAllocator::~TracingAllocator() = default;

RunningNode TracingAllocator::enter(std::string_view node) {
  require_world(world_);
  detail::TracedNode& entered = control_call(
      "tracing", [&]() -> detail::TracedNode& { return state_->node(checked_name(node)); });
  state_->start(entered);
  return RunningNode(state_, entered);
}

Tensor TracingAllocator::allocate(DType dtype, const Shape& shape) {
  require_world(world_);
  RunningNode* running = innermost;
  while (running != nullptr && running->state_ != state_) running = running->outer_;
  if (running == nullptr)
    throw_error(Code::bad_argument, "allocate", "this thread runs no node of this allocator",
                "hold the result of enter() while the node runs");
  check_dtype("allocate", dtype);
  try {
    const std::size_t bytes = checked_bytes(dtype, shape);
    detail::Site& site = state_->site(running->node_, running->next_);
    const detail::SiteMemory memory = state_->memory_of(site);
    Tensor tensor = memory == detail::SiteMemory::plain
                        ? state_->plain_tensor(site, bytes, dtype, shape)
                    : memory == detail::SiteMemory::arena ? world_->allocate(dtype, shape)
                                                          : adopted_tensor(*world_, dtype, shape);
    state_->count_allocation(site, memory);
    ++running->next_;
    return tensor;
  } catch (...) {
    fail_for(running->node_.name);
  }
}

Tensor TracingAllocator::to_send(const Tensor& tensor) {
  require_world(world_);
  const p2p::LocalRank& local = WorldAccess::state(*world_).local;
  return control_call("to_send", [&] {
    if (lacks_host_memory(tensor))
      throw_error(Code::bad_argument, "to_send", no_host_memory("the tensor", tensor),
                  give_host_memory(tensor));
    detail::Site* const site = state_->site_of(tensor);
    if (site != nullptr) state_->note_sent(*site);
    const bool is_reached = tensor.bytes() == 0 || tensor.arena() == local.data.get() ||
                            (site == nullptr && local.locate(tensor));
    if (site == nullptr && !is_reached)
      throw_error(Code::bad_argument, "to_send",
                  fmt::format("{} is in memory that neither this allocator nor its world gave",
                              tensor.text()),
                  "send what allocate() gave, or a part of it; put memory of your own directly");
    const bool must_copy = tensor.bytes() > 0 && state_->mode() == TracingMode::off;
    Tensor sent = tensor;
    if (must_copy || !is_reached) {
      sent = world_->allocate(tensor.dtype(), tensor.shape());
      copy_elements(tensor, sent.data());
      state_->count_copy(site, sent.bytes());
    }
    state_->count_send();
    return sent;
  });
}

void TracingAllocator::mark_cut(std::string_view node, std::uint32_t allocation) {
  require_world(world_);
  control_call("tracing", [&] {
    state_->mark_cut(state_->site(state_->node(checked_name(node)), allocation));
  });
}

void TracingAllocator::next_step() {
  require_world(world_);
  state_->next_step();
}

TracingCounters TracingAllocator::counters() const noexcept {
  return state_ ? state_->counters() : TracingCounters{};
}

TracingReport TracingAllocator::report() const {
  require_state(world_, "TracingAllocator", "tracing");
  WorldAccess::state(*world_).refuse_fork("tracing");
  return control_call("tracing", [&] {
    TracingReport report = state_->report();
    report.rank = world_->rank();
    return report;
  });
}

}  // namespace weft::dataflow
