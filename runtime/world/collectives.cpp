// The public handles of collectives: calls, plans and groups.
#include <numeric>

#include "base/control_call.hpp"
#include "base/handle.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/collective_table.hpp"
#include "runtime/world/world_state.hpp"
#include "weft/collective.hpp"
#include "weft/group.hpp"
#include "weft/world.hpp"

namespace weft {

ReduceOp::ReduceOp(ReduceFunction function)
    : function_(std::make_shared<const ReduceFunction>(std::move(function))) {
  if (!*function_)
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "reduce",
                            .message = "an empty function was given",
                            .hint = "pass a function that combines elements"});
}

Call barrier() { return {}; }

Call broadcast(const Tensor& tensor, int root) {
  return {.kind = CollectiveKind::broadcast, .in = tensor, .out = tensor, .root = root};
}

Call reduce(const Tensor& in, const Tensor& out, const ReduceOp& op, int root) {
  return {.kind = CollectiveKind::reduce, .in = in, .out = out, .op = op, .root = root};
}

Call all_reduce(const Tensor& in, const Tensor& out, const ReduceOp& op) {
  return {.kind = CollectiveKind::all_reduce, .in = in, .out = out, .op = op};
}

Call all_reduce(const Tensor& tensor, const ReduceOp& op) { return all_reduce(tensor, tensor, op); }

Call reduce_scatter(const Tensor& in, const Tensor& out, const ReduceOp& op,
                    std::vector<std::int64_t> counts) {
  return {.kind = CollectiveKind::reduce_scatter,
          .in = in,
          .out = out,
          .op = op,
          .counts = std::move(counts)};
}

Call all_gather(const Tensor& in, const Tensor& out, std::vector<std::int64_t> counts) {
  return {.kind = CollectiveKind::all_gather, .in = in, .out = out, .counts = std::move(counts)};
}

Call gather(const Tensor& in, const Tensor& out, int root, std::vector<std::int64_t> counts) {
  return {.kind = CollectiveKind::gather,
          .in = in,
          .out = out,
          .root = root,
          .counts = std::move(counts)};
}

Call scatter(const Tensor& in, const Tensor& out, int root, std::vector<std::int64_t> counts) {
  return {.kind = CollectiveKind::scatter,
          .in = in,
          .out = out,
          .root = root,
          .counts = std::move(counts)};
}

Call all_to_all(const Tensor& in, const Tensor& out, std::vector<std::int64_t> in_counts,
                std::vector<std::int64_t> out_counts) {
  return {.kind = CollectiveKind::all_to_all,
          .in = in,
          .out = out,
          .counts = std::move(in_counts),
          .out_counts = std::move(out_counts)};
}

Call scan(const Tensor& in, const Tensor& out, const ReduceOp& op) {
  return {.kind = CollectiveKind::scan, .in = in, .out = out, .op = op};
}

Plan::Plan() noexcept = default;
Plan::Plan(std::shared_ptr<detail::CollectiveGroup> group,
           std::shared_ptr<detail::PlannedCall> call) noexcept
    : group_(std::move(group)), call_(std::move(call)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&& other) noexcept {
  if (this == &other) return *this;
  if (call_) group_->drop(call_);
  group_ = std::move(other.group_);
  call_ = std::move(other.call_);
  return *this;
}
Plan::~Plan() {
  if (call_) group_->drop(call_);
}

Status Plan::start() noexcept {
  if (!call_) [[unlikely]]
    return empty_handle("Plan", "start");
  return group_->start(call_);
}
bool Plan::test() noexcept { return !call_ || group_->test(*call_); }
Status Plan::wait(Deadline deadline) noexcept {
  if (!call_) [[unlikely]]
    return empty_handle("Plan", "wait");
  return group_->wait(*call_, deadline);
}
Status Plan::run(Deadline deadline) noexcept {
  if (!call_) [[unlikely]]
    return empty_handle("Plan", "run");
  return group_->run(call_, deadline);
}

Status Plan::start(Stream stream, Deadline deadline) noexcept {
  if (!call_) [[unlikely]]
    return empty_handle("Plan", "start");
  return group_->start(call_, stream, deadline);
}
const std::uint32_t* Plan::outcome() const noexcept {
  if (!call_ || call_->streams.runs == nullptr) return nullptr;
  const auto& meeting = call_->streams.runs->meeting;
  return meeting == nullptr ? nullptr : meeting->outcome();
}

Collectives::Collectives() noexcept = default;
Collectives::Collectives(std::shared_ptr<detail::CollectiveGroup> group) noexcept
    : group_(std::move(group)) {}
Collectives::Collectives(Collectives&&) noexcept = default;
Collectives& Collectives::operator=(Collectives&& other) noexcept {
  if (this == &other) return *this;
  if (group_) group_->close();
  group_ = std::move(other.group_);
  return *this;
}
Collectives::~Collectives() {
  if (group_) group_->close();
}

Collectives Collectives::open(World& world, Deadline deadline) {
  return control_call("open", [&] {
    WorldAccess::usable(world, "open");
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    return open(world, all, deadline);
  });
}

Collectives Collectives::open(World& world, std::span<const int> ranks, Deadline deadline) {
  detail::WorldState& state = WorldAccess::usable(world, "open");
  return control_call(
      "open", [&] { return Collectives(state.hold(state.collectives.open(ranks, deadline))); });
}

Collectives Collectives::open(World& world, const Group& group, Deadline deadline) {
  return open(world, group.members(), deadline);
}

int Collectives::rank() const noexcept { return group_ ? group_->rank() : -1; }
int Collectives::size() const noexcept { return group_ ? group_->size() : 0; }
std::span<const int> Collectives::ranks() const noexcept {
  return group_ ? group_->ranks() : std::span<const int>();
}

Plan Collectives::plan(const Call& call) {
  require_state(group_, "Collectives", "plan");
  group_->refusal("plan").or_throw();
  return control_call("plan", [&] { return Plan(group_, group_->plan(call)); });
}

Plan Collectives::start(const Call& call) {
  require_state(group_, "Collectives", "start");
  group_->refusal(detail::name(call.kind)).or_throw();
  return control_call("start", [&] {
    Plan started = plan(call);
    started.start().or_throw();
    return started;
  });
}

Status Collectives::run(const Call& call, Deadline deadline) noexcept {
  if (!group_) [[unlikely]]
    return empty_handle("Collectives", "run");
  return group_->run_once(call, deadline);
}

Status Collectives::settle(Deadline deadline) noexcept {
  if (!group_) [[unlikely]]
    return empty_handle("Collectives", "settle");
  return group_->settle(deadline);
}

std::uint64_t Collectives::bytes_copied() const noexcept {
  return group_ ? group_->row().bytes_copied.load(std::memory_order_relaxed) : 0;
}
std::uint64_t Collectives::staged_bytes() const noexcept {
  return group_ ? group_->row().bytes_staged.load(std::memory_order_relaxed) : 0;
}

}  // namespace weft
