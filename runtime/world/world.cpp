#include "weft/world.hpp"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "base/os/descriptor_limit.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/transport/cuda/capture.hpp"
#include "runtime/world/descriptor_need.hpp"
#include "runtime/world/world_state.hpp"

namespace weft {
namespace {

std::size_t bytes_of(const char* operation, DType dtype, const Shape& shape) {
  check_dtype(operation, dtype);
  const auto elements = static_cast<std::uint64_t>(shape.elements());
  if (elements > (std::numeric_limits<std::uint64_t>::max() >> 2) / size_of(dtype))
    throw Error(ErrorDetail{.code = Code::exhausted,
                            .operation = operation,
                            .message = fmt::format("{}{} is more than any machine addresses",
                                                   name(dtype), shape.text()),
                            .hint = "allocate a smaller tensor"});
  return elements * size_of(dtype);
}

}  // namespace

World WorldAccess::make(const Config& config, WorldParts parts) {
  os::raise_descriptor_limit();
  const Bootstrap& bootstrap = *parts.bootstrap;
  if (!parts.fabrics)
    detail::require_descriptors(config, {.all = bootstrap.size(), .local = bootstrap.local_size()},
                                bootstrap.descriptors_until_fence());
  // A fork has neither the rank's threads nor its memory, and its locks may never be released: the
  // state is left as it is.
  std::shared_ptr<detail::WorldState> state(new detail::WorldState(config, std::move(parts)),
                                            [](detail::WorldState* last) {
                                              if (!last->local.forked()) delete last;
                                            });
  detail::WorldState* const first = state.get();
  return World(std::shared_ptr<detail::WorldState>(
      first, [state = std::move(state)](detail::WorldState* ending) mutable {
        ending->end();
        state.reset();
      }));
}

namespace {

template <typename MakeBootstrap>
World join_by(const Config& config, const MakeBootstrap& make_bootstrap) {
  // A rank that can't even be alone does not keep the others waiting in the bootstrap.
  os::raise_descriptor_limit();
  detail::require_descriptors(config, {});
  return WorldAccess::make(
      config, {.bootstrap = make_bootstrap(), .mapper = std::make_shared<p2p::SegmentMapper>()});
}

}  // namespace

World World::join() {
  return control_call("join", [] {
    const Config config = Config::read();
    return join_by(config, [&] { return choose_bootstrap(config); });
  });
}

World World::join(const JoinOptions& options) {
  if (!options.rank && !options.size && options.address.empty() && options.token.empty())
    return join();
  return control_call("join", [&] {
    Config config = Config::read();
    if (options.rank) config = config.with(Setting::rank, std::to_string(*options.rank));
    if (options.size) config = config.with(Setting::size, std::to_string(*options.size));
    if (!options.address.empty()) config = config.with(Setting::addr, options.address);
    return join_by(config, [&] { return join_by_token(config, options.token); });
  });
}

World::World() noexcept = default;
World::World(std::shared_ptr<detail::WorldState> state) noexcept : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

int World::rank() const noexcept { return state_ ? state_->rank : -1; }
int World::size() const noexcept { return state_ ? state_->size : 0; }
int World::local_size() const noexcept { return state_ ? state_->local_size : 0; }

std::string World::host(int rank) const {
  require_state(state_, "World", "host");
  state_->refuse_fork("host");
  if (rank < 0 || rank >= size())
    throw Error(
        ErrorDetail{.code = Code::bad_argument,
                    .operation = "host",
                    .message = fmt::format("there is no rank {} in a job of {}", rank, size())});
  return control_call("host", [&] { return state_->mesh.peer(rank).host(); });
}

Tensor World::allocate(DType dtype, const Shape& shape) {
  require_state(state_, "World", "allocate");
  state_->refuse_fork("allocate");
  return control_call("allocate", [&] {
    return Tensor(p2p::make_storage(state_->local.data, bytes_of("allocate", dtype, shape)), 0,
                  dtype, shape);
  });
}

Tensor World::allocate(DType dtype, const Shape& shape, Memory memory) {
  if (memory.is_host()) return allocate(dtype, shape);
  require_state(state_, "World", "allocate");
  state_->refuse_fork("allocate");
  return control_call("allocate", [&] {
    const std::size_t bytes = bytes_of("allocate", dtype, shape);
    p2p::cuda::reap_graphs();
    return Tensor(p2p::make_storage(state_->gpus.arena(memory), bytes), 0, dtype, shape);
  });
}

void World::copy(const Tensor& from, const Tensor& to, Stream stream, Deadline deadline) {
  require_state(state_, "World", "copy");
  state_->refuse_fork("copy");
  control_call("copy", [&] {
    auto& local = state_->local;
    state_->gpus.copy(from, to, stream, {local.data, local.staging, local.gpu_staging},
                      deadline.resolve(local.waiter.default_timeout()));
  });
}

Tensor World::adopt(std::shared_ptr<void> memory, DType dtype, const Shape& shape) {
  require_state(state_, "World", "adopt");
  state_->refuse_fork("adopt");
  const std::size_t bytes = bytes_of("adopt", dtype, shape);
  if (const Memory where = state_->gpus.memory_of(memory.get()); where.is_gpu())
    return control_call("adopt",
                        [&] { return state_->gpus.adopt(std::move(memory), dtype, shape, where); });
  if (memory == nullptr)
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "adopt",
                            .message = "no memory was given",
                            .hint = "give the address of " + std::to_string(bytes) + " bytes"});
  return control_call("adopt", [&] {
    return Tensor(state_->local.adopted->adopt(std::move(memory), bytes), 0, dtype, shape);
  });
}

Tensor World::adopt(void* memory, DType dtype, const Shape& shape, std::function<void()> unused) {
  return control_call("adopt", [&] {
    const auto when_unused = std::make_shared<std::function<void()>>();
    Tensor tensor = adopt(std::shared_ptr<void>(memory,
                                                [when_unused](void*) {
                                                  if (*when_unused) (*when_unused)();
                                                }),
                          dtype, shape);
    // Set last: if adopt() throws, the memory stays the caller's.
    *when_unused = std::move(unused);
    return tensor;
  });
}

std::pmr::memory_resource& World::memory() noexcept {
  if (!state_) return *std::pmr::null_memory_resource();
  return state_->local.resource;
}

Slot World::expose(const SlotSpec& spec) {
  require_usable(state_, "World", "expose");
  bytes_of("expose", spec.dtype, spec.shape);
  return control_call("expose", [&] { return Slot(state_->hold(state_->slots.expose(spec, {}))); });
}

Slot World::expose(const SlotSpec& spec, const Tensor& memory) {
  require_usable(state_, "World", "expose");
  bytes_of("expose", spec.dtype, spec.shape);
  if (memory.empty())
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "expose",
                            .message = "the memory given is an empty tensor",
                            .hint = "leave it out, or give memory",
                            .slot = spec.name});
  return control_call("expose",
                      [&] { return Slot(state_->hold(state_->slots.expose(spec, memory))); });
}

PublishedSlot World::expose_published(const PublishedSpec& spec) {
  require_usable(state_, "World", "expose");
  bytes_of("expose", spec.dtype, spec.shape);
  return control_call("expose",
                      [&] { return PublishedSlot(state_->hold(state_->slots.expose(spec))); });
}

RemoteSlot World::attach(int owner, const SlotSpec& expected, Deadline deadline) {
  require_usable(state_, "World", "attach");
  return control_call("attach", [&] {
    return RemoteSlot(state_->hold(state_->slots.attach(owner, expected, false, deadline)));
  });
}

RemoteSlot World::attach_by_name(int owner, std::string_view name, Deadline deadline) {
  require_usable(state_, "World", "attach");
  return control_call("attach", [&] {
    SlotSpec asked;
    asked.name = name;
    return RemoteSlot(state_->hold(state_->slots.attach(owner, asked, true, deadline)));
  });
}

PublishedReader World::attach_published(int owner, const PublishedSpec& expected,
                                        Deadline deadline) {
  require_usable(state_, "World", "attach");
  return control_call("attach", [&] {
    return PublishedReader(state_->hold(state_->slots.attach(owner, expected, false, deadline)));
  });
}

PublishedReader World::attach_published_by_name(int owner, std::string_view name,
                                                Deadline deadline) {
  require_usable(state_, "World", "attach");
  return control_call("attach", [&] {
    PublishedSpec asked;
    asked.name = name;
    return PublishedReader(state_->hold(state_->slots.attach(owner, asked, true, deadline)));
  });
}

int World::event_fd() {
  require_state(state_, "World", "event_fd");
  state_->refuse_fork("event_fd");
  return control_call("event_fd", [&] { return state_->event_fd(); });
}
void World::clear_event() noexcept {
  if (state_ && !state_->local.forked()) state_->clear_event();
}

void World::declare_dead(int rank, const std::string& why) {
  require_usable(state_, "World", "declare_dead");
  control_call("declare_dead",
               [&] { state_->mesh.declare_dead(rank, why.empty() ? "no reason was given" : why); });
}

Status World::alive(std::span<const int> ranks) const noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "World", "alive");
  try {
    state_->mesh.check_ranks(ranks, "alive");
  } catch (const Error& error) {
    return error.status();
  }
  const Status status = state_->mesh.peer_status(ranks);
  if (status.ok()) return status;
  return altered(status, [&](ErrorDetail& detail) { detail.operation = "alive"; });
}

Group World::group() const noexcept { return state_ ? state_->membership->all() : Group(); }

Report World::report() const {
  require_state(state_, "World", "report");
  state_->refuse_fork("report");
  return control_call("report", [&] {
    std::vector<EdgeReport> edges = state_->slots.edges();
    state_->rendezvous.report(edges);
    state_->messages.report(edges);
    std::vector<ArenaReport> arenas{state_->local.control->report(), state_->local.data->report(),
                                    state_->local.published->report(),
                                    state_->local.staging->report()};
    for (ArenaReport& gpu : state_->gpus.reports()) arenas.push_back(std::move(gpu));
    return Report{state_->mesh.paths(), std::move(edges), std::move(arenas),
                  state_->local.rejected_connections.count()};
  });
}

Status World::leave(Deadline deadline) noexcept {
  if (!state_ || state_->local.forked()) return unusable(state_, "World", "leave");
  return state_->leave(deadline);
}

}  // namespace weft
