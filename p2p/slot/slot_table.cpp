// The application's calls on slots: expose, attach, close, detach.
#include "p2p/slot/slot_table.hpp"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "base/tensor_checks.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {
namespace {

/// Between two looks whether a GPU's copy has ended.
constexpr std::chrono::microseconds kCopyPause{100};

[[noreturn]] void refuse(const char* operation, const std::string& slot, const std::string& message,
                         const std::string& hint, Code code = Code::bad_argument) {
  throw Error(ErrorDetail{
      .code = code, .operation = operation, .message = message, .hint = hint, .slot = slot});
}

void check_spec(const char* operation, const Contract& spec) {
  const std::string& name = spec.name;
  if (name.empty() || name.size() > kMaxSlotName)
    refuse(operation, name.substr(0, 40), fmt::format("its name has {} bytes", name.size()),
           fmt::format("slot names have 1 to {} bytes", kMaxSlotName));
  if (name.find('\0') != std::string::npos)
    refuse(operation, "", "its name holds a NUL byte", "slot names are plain text");
  if (!is_dtype(spec.dtype)) refuse(operation, name, no_such_dtype(spec.dtype), kUseDType);
  if (spec.flow > Flow::unsafe_synchronous)
    refuse(operation, name, fmt::format("flow {} does not exist", static_cast<int>(spec.flow)),
           "use a value of weft::Flow");
  if (spec.placement > Placement::dynamic)
    refuse(operation, name,
           fmt::format("placement {} does not exist", static_cast<int>(spec.placement)),
           "use a value of weft::Placement");
  const bool dynamic = spec.placement == Placement::dynamic;
  const std::uint32_t most = dynamic ? kMaxDynamicDepth : kMaxDepth;
  if (spec.depth == 0 || spec.depth > most)
    refuse(operation, name, fmt::format("its depth is {}", spec.depth),
           fmt::format("a {}slot has 1 to {} buffers", dynamic ? "dynamic " : "", most));
  if (dynamic && spec.flow != Flow::credits)
    refuse(operation, name, "it is dynamic and synchronous",
           "dynamic placement goes with Flow::credits");
}

/// Memory for a slot's buffers on the GPU of its specification.
Tensor gpu_buffers(LocalRank& local, const SlotSpec& spec) {
  constexpr std::size_t kLine = 256;  // of a GPU's caches, and more than a vector
  const auto arena = local.gpus->arena(spec.memory);
  const std::size_t bytes = (payload_bytes(spec) + kLine - 1) / kLine * kLine * spec.depth;
  return {make_storage(arena, bytes), 0, DType::u8, {static_cast<std::int64_t>(bytes)}};
}

}  // namespace

SlotTable::SlotTable(LocalRank& local, Mesh& mesh) : local_(local), mesh_(mesh) {}

SlotTable::~SlotTable() { end(); }

void SlotTable::end() noexcept {
  if (std::exchange(has_ended_, true)) return;
  // Waiting for what is under way lets things arrive: the slots are still there then.
  for (const auto& [id, slot] : slots_) slot->end_streams();
  for (const auto& [id, remote] : remotes_) remote->abandon();
  for (const auto& [id, slot] : slots_) slot->abandon();
  for (const auto& slot : asked_)
    if (!slots_.contains(slot->id())) slot->abandon();
  cuda::reap_graphs();
}

void SlotTable::check_memory(const SlotSpec& spec, const Tensor& memory) const {
  if (spec.memory.is_gpu() && local_.gpus == nullptr)
    refuse("expose", spec.name, "this rank has no GPUs", "leave out SlotSpec::memory");
  if (memory.empty()) return;
  if (spec.memory.is_gpu() && !(local_.gpus->resolve("expose", spec.memory) == memory.memory()))
    refuse("expose", spec.name,
           fmt::format("it is to lie on {}, and the memory given is {}", spec.memory.text(),
                       memory.memory().text()),
           "leave out one of the two");
  if (spec.placement != Placement::fixed)
    refuse("expose", spec.name, "only a slot of fixed shape lies in given memory",
           "let the arena hold it, or give a dynamic slot an allocator (allocate_with)");
  const std::size_t needed = payload_bytes(spec) * spec.depth;
  if (memory.dtype() != spec.dtype || !memory.dense() || memory.bytes() != needed)
    refuse("expose", spec.name,
           fmt::format("the memory given is {}{}, and {} buffers of {}{} are to lie in it",
                       memory.text(), memory.dense() ? "" : " with strides", spec.depth,
                       name(spec.dtype), spec.shape.text()),
           "give a dense tensor of the slot's dtype that holds just its buffers");
  if (memory.memory().is_gpu() && memory.arena() == nullptr)
    refuse("expose", spec.name,
           fmt::format("the memory given is the caller's own, on {}", memory.memory().text()),
           "World::allocate it there, or leave it out and set SlotSpec::memory");
  if (memory.memory().is_host() && !local_.locate(memory))
    refuse("expose", spec.name, "the memory given is neither the world's nor adopted",
           "World::allocate it, or World::adopt it");
}

template <typename State, typename Make>
std::shared_ptr<State> SlotTable::add_slot(const Contract& contract, const Make& make) {
  const std::string& name = contract.name;
  const std::size_t tensor = payload_bytes(contract);
  if (tensor > (std::size_t{1} << 62) / contract.depth)
    refuse("expose", name,
           fmt::format("{} buffers of {} bytes are more than any machine addresses", contract.depth,
                       tensor),
           "ask for less depth or a smaller shape", Code::exhausted);
  const auto refuse_duplicate = [&] {
    refuse("expose", name, fmt::format("rank {} already exposes it", local_.rank),
           "close the other slot first, or give this one another name", Code::duplicate_name);
  };
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (by_name_.contains(name)) refuse_duplicate();
    id = next_id_++;
  }
  bool is_awaited = false;
  std::shared_ptr<State> state;
  try {
    state = make(id);
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.operation = "expose";
    detail.slot = name;
    detail.message =
        fmt::format("{} ({} buffers of {} bytes)", detail.message, contract.depth, tensor);
    throw Error(detail);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!by_name_.emplace(name, state).second) refuse_duplicate();
    slots_.emplace(id, state);
    is_awaited = waiting_count_ != 0;
  }
  local_.recorder.control(stats::Event::exposed, -1, id, contract.depth);
  if (is_awaited) local_.progress.post([this, name] { retry_waiting(name); });
  return state;
}

std::shared_ptr<detail::PutOwner> SlotTable::expose(const SlotSpec& spec, const Tensor& memory,
                                                    Notify notify) {
  check_spec("expose", spec);
  check_memory(spec, memory);
  return add_slot<detail::PutOwner>(spec, [&](std::uint64_t id) {
    if (spec.memory.is_host() && memory.memory().is_host())
      return std::make_shared<detail::PutOwner>(local_, mesh_, *this, spec, id, memory, notify);
    SlotSpec settled = spec;
    const bool is_given = !memory.empty() || spec.placement == Placement::dynamic;
    const Tensor buffers = is_given ? memory : gpu_buffers(local_, spec);
    settled.memory =
        buffers.empty() ? local_.gpus->resolve("expose", spec.memory) : buffers.memory();
    return std::make_shared<detail::PutOwner>(local_, mesh_, *this, settled, id, buffers, notify);
  });
}

std::shared_ptr<detail::Publisher> SlotTable::expose(const PublishedSpec& spec) {
  check_spec("expose", spec);
  if (spec.memory.is_gpu() && local_.gpus == nullptr)
    refuse("expose", spec.name, "this rank has no GPUs", "leave out PublishedSpec::memory");
  return add_slot<detail::Publisher>(spec, [&](std::uint64_t id) {
    PublishedSpec settled = spec;
    if (spec.memory.is_gpu()) settled.memory = local_.gpus->resolve("expose", spec.memory);
    return std::make_shared<detail::Publisher>(local_, mesh_, *this, settled, id);
  });
}

std::shared_ptr<detail::PutWriter> SlotTable::attach(int owner, const SlotSpec& asked,
                                                     bool take_declared, Deadline deadline) {
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  auto state = add_remote<detail::PutWriter>(owner, asked, take_declared, until);
  await_answer(state, asked.name, until);
  state->map_buffers(until);
  return state;
}

std::shared_ptr<detail::PutWriter> SlotTable::begin_attach(int owner, const SlotSpec& asked) {
  return add_remote<detail::PutWriter>(owner, asked, false, {});
}

std::shared_ptr<detail::VersionReader> SlotTable::attach(int owner, const PublishedSpec& asked,
                                                         bool take_declared, Deadline deadline) {
  auto state = add_remote<detail::VersionReader>(owner, asked, take_declared, deadline);
  await_answer(state, asked.name, deadline);
  return state;
}

template <typename State, typename Spec>
std::shared_ptr<State> SlotTable::add_remote(int owner, const Spec& asked, bool take_declared,
                                             Deadline deadline) {
  check_spec("attach", asked);
  if (owner < 0 || owner >= local_.size)
    refuse("attach", asked.name,
           fmt::format("there is no rank {} in a job of {}", owner, local_.size),
           fmt::format("ranks go from 0 to {}", local_.size - 1));
  Peer& peer = mesh_.peer(owner);
  // A peer that was gone before it was connected has no channel.
  if (peer.gone()) {
    ErrorDetail detail = mesh_.peer_status(owner).detail();
    detail.operation = "attach";
    detail.slot = asked.name;
    detail.rank = local_.rank;
    throw Error(std::move(detail));
  }
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
  }
  auto state = std::make_shared<State>(local_, mesh_, *this, peer, asked, take_declared, id);
  {
    const std::lock_guard lock(mutex_);
    remotes_.emplace(id, state);
  }
  ask(*state, asked.name, deadline.resolve(local_.waiter.default_timeout()));
  return state;
}

void SlotTable::ask(detail::RemoteEnd& state, const std::string& name, Deadline until) {
  Peer& peer = state.owner();
  local_.recorder.control(stats::Event::attach_asked, peer.rank, state.id());
  bool shared = false;
  bool is_early = true;
  while (is_early) {
    local_.progress.run([&] {
      is_early = is_detach_due(peer, name) && !until.passed();
      shared = !is_early && mesh_.share(peer, state.credit_chunk());
      if (shared) mesh_.send(peer, state.attach_message());
    });
    if (is_early) std::this_thread::sleep_for(kCopyPause);
  }
  if (shared) return;
  forget_remote(state.id());
  refuse(
      "attach", name,
      fmt::format("this rank can't let rank {} (host {}) reach its memory", peer.rank, peer.host()),
      "the log says why; more memory may be registered: ulimit -l", Code::exhausted);
}

void SlotTable::await_answer(const std::shared_ptr<detail::RemoteEnd>& state,
                             const std::string& name, Deadline deadline) {
  Peer& peer = state->owner();
  const int owner = peer.rank;
  const std::uint64_t id = state->id();
  using State = AttachAnswer::State;
  const auto answered = [&] {
    if (state->answer().state() == State::asked) local_.progress.help();
    return state->answer().state() != State::asked;
  };
  const WaitEnd end = local_.waiter.wait(
      answered, [&] { return peer.gone(); }, deadline,
      [&] {
        return stats::WaitAbout{.operation = stats::Operation::attach, .peer = owner, .slot = id};
      });
  if (end == WaitEnd::ready && state->answer().state() == State::granted) return;
  ErrorDetail detail;
  if (end == WaitEnd::ready) {
    detail = state->answer().refusal().detail();
    forget_remote(id);
  } else {
    local_.recorder.control(
        end == WaitEnd::timeout ? stats::Event::timeout : stats::Event::attach_withdrawn, owner,
        id);
    local_.progress.post([this, state] { withdraw(*state); });
    if (end == WaitEnd::broken) {
      detail = mesh_.peer_status(owner).detail();
    } else {
      detail.code = Code::timeout;
      detail.peer = owner;
      detail.host = peer.host();
      const bool too_late = state->answer().was_too_late();
      detail.message = fmt::format(
          "rank {} (host {}) {}{}", owner, peer.host(),
          too_late ? "had exposed it, but closed it before it was asked" : "has not exposed it",
          mesh_.suspicion(owner));
      detail.hint = too_late
                        ? "let the owner keep the slot until all have attached"
                        : "is the name the same on both ranks, and does the owner get that far?";
    }
  }
  detail.operation = "attach";
  detail.slot = name;
  detail.rank = local_.rank;
  throw Error(detail);
}

// Kept until the owner has answered: it may have granted meanwhile, and write the credit word.
void SlotTable::withdraw(detail::RemoteEnd& state) {
  state.answer().withdraw();
  state.leaving().started = true;
  if (state.owner().silent.load())
    forget_remote(state.id());
  else
    mesh_.send(state.owner(), WithdrawMessage{.remote_id = state.id()});
}

void SlotTable::close(std::shared_ptr<detail::ExposedSlot> slot) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (auto entry = by_name_.extract(slot->name())) closed_.add(std::move(entry.key()));
  }
  slot->show_closing();
  local_.recorder.control(stats::Event::closing, -1, slot->id());
  local_.progress.post([this, slot = std::move(slot)] {
    const bool is_free = slot->begin_close() == 0;
    // Streams may still work on its memory.
    if (slot->take_wish()) asked_.push_back(slot);
    if (is_free) {
      const std::lock_guard lock(mutex_);
      slots_.erase(slot->id());
    } else {
      slot->count_quarantine(true);
    }
  });
}

void SlotTable::close(const detail::ExposedSlot& slot) noexcept {
  if (auto known = this->slot(slot.id())) close(std::move(known));
}

void SlotTable::detach(const detail::RemoteEnd& remote) noexcept {
  if (auto known = this->remote(remote.id())) detach(std::move(known));
}

void SlotTable::detach(std::shared_ptr<detail::RemoteEnd> remote) noexcept {
  remote->drop_pending();
  remote->show_closing();
  local_.recorder.control(stats::Event::detached, remote->owner().rank, remote->id());
  local_.progress.post([this, remote = std::move(remote)] {
    const AttachAnswer::State answer = remote->answer().state();
    if (answer == AttachAnswer::State::asked) return withdraw(*remote);
    if (answer == AttachAnswer::State::refused) return forget_remote(remote->id());
    // The owner writes the credit word until it has answered.
    if (remote->owner_has_closed() || remote->owner().silent.load())
      forget_remote(remote->id());
    else
      say_detached(*remote);
    remote->leaving().started = true;
  });
}

std::vector<EdgeReport> SlotTable::edges() const {
  std::vector<EdgeReport> edges;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, slot] : by_name_) edges.push_back(slot->report());
  for (const auto& [id, remote] : remotes_)
    if (remote->answer().state() == AttachAnswer::State::granted) edges.push_back(remote->report());
  return edges;
}

std::shared_ptr<detail::ExposedSlot> SlotTable::slot(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(id);
  return found == slots_.end() ? nullptr : found->second;
}

std::shared_ptr<detail::RemoteEnd> SlotTable::remote(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = remotes_.find(id);
  return found == remotes_.end() ? nullptr : found->second;
}

void SlotTable::forget_remote(std::uint64_t id) {
  const auto state = remote(id);  // goes when the lock has: so may the user's memory
  if (!state) return;
  if (!state->has_completed()) {
    state->leaving().answered = true;
    local_.want_service();
    return;
  }
  const std::lock_guard lock(mutex_);
  remotes_.erase(id);
}

}  // namespace weft::p2p
