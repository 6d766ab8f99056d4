// Waits and releases that are captured in graphs: each replay takes the next tensor.
#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/put/owner.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::detail {

using p2p::GraphCall;
using p2p::GraphPort;
using p2p::StreamArrivals;

Result<Arrival> PutOwner::capture_wait(const p2p::cuda::Capture& capture, Deadline deadline) {
  p2p::check_capture(local_, "wait");
  if (buffers_.gpu() == nullptr)
    throw_error(Code::bad_argument, "wait",
                "the stream captures a graph, and the slot lies in host memory",
                "expose it on a GPU: SlotSpec::memory");
  if (streams_made_) {
    const std::lock_guard lock(streams_made_->mutex);
    if (streams_made_->is_failed()) return resume();
  }
  const auto& gpu = capture.stream.gpu;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  const std::chrono::nanoseconds patience = p2p::patience(local_, deadline);
  const p2p::cuda::ScopedRelaxation relaxed(gpu->driver());
  p2p::cuda::reap_graphs();
  prepare_streams(gpu, until);
  // The address is one for all replays, and the slot's buffers take turns.
  const bool is_copied = spec_.depth > 1;
  Tensor place = is_copied ? make_place(until) : buffers_.tensor(0, 1);
  if (!graphs_) {
    auto made = std::make_unique<p2p::GraphWaits>([this] {
      wants_serving_.store(true, std::memory_order_release);
      local_.service_wanted.store(true, std::memory_order_release);
      local_.progress.post([] {});
    });
    const std::lock_guard lock(streams_made_->mutex);
    graphs_ = std::move(made);
  }
  const p2p::cuda::Gpu::Current current(*gpu);
  const auto call = p2p::cuda::handle_of(
      std::make_unique<GraphCall>(GraphCall::Kind::wait, graphs_->port, capture, patience));
  call->tensor = std::move(place);
  call->is_copied = is_copied;
  {
    const std::lock_guard lock(streams_made_->mutex);
    graphs_->held.reserve(graphs_->held.size() + 1);
  }
  call->add_to(capture);
  const std::lock_guard lock(streams_made_->mutex);
  const Tensor& tensor = call->tensor;
  const std::uint32_t* const outcome = call->outcome;
  graphs_->held.push_back(call);
  held_.handed_out();
  return SlotAccess::received(*this, tensor, 0, outcome);
}

Tensor PutOwner::make_place(Deadline until) {
  wait_for_streams(local_, "wait", until);
  const auto arena = local_.gpus->arena(spec_.memory);
  return {make_storage(arena, buffers_.tensor_bytes()), 0, spec_.dtype, spec_.shape};
}

std::shared_ptr<GraphCall> PutOwner::held_by_graph(const std::uint32_t* outcome) noexcept {
  const std::lock_guard lock(streams_made_->mutex);
  const auto found =
      std::ranges::find_if(graphs_->held, [&](const auto& one) { return one->outcome == outcome; });
  return found == graphs_->held.end() ? nullptr : *found;
}

void PutOwner::capture_release(const std::uint32_t* outcome, Stream stream) {
  const auto wait = held_by_graph(outcome);
  const auto capture = p2p::cuda::capture_of(*local_.gpus, "release", stream, spec_.memory);
  if (!capture || capture->id != wait->capture)
    throw_error(Code::bad_argument, "release",
                "the arrival is part of a captured graph, and the stream is not of that capture",
                "release it on a stream of the capture, before that ends");
  // A tensor that was copied to the graph's own memory is released with that.
  if (!wait->is_copied) {
    const p2p::cuda::ScopedRelaxation relaxed(wait->gpu->driver());
    const p2p::cuda::Gpu::Current current(*wait->gpu);
    const auto call = p2p::cuda::handle_of(std::make_unique<GraphCall>(
        GraphCall::Kind::release, graphs_->port, *capture, std::chrono::nanoseconds(0)));
    call->of = wait;
    call->add_to(*capture);
    const std::lock_guard lock(streams_made_->mutex);
    wait->is_released = true;
  }
  forget_graph_wait(outcome);
}

void PutOwner::forget_graph_wait(const std::uint32_t* outcome) noexcept {
  std::shared_ptr<GraphCall> last;  // goes when the lock has
  const std::lock_guard lock(streams_made_->mutex);
  const auto found =
      std::ranges::find_if(graphs_->held, [&](const auto& one) { return one->outcome == outcome; });
  last = std::move(*found);
  graphs_->held.erase(found);
}

Status PutOwner::begin_turn(Deadline until, bool all_have_come) noexcept {
  StreamArrivals& streams = *streams_made_;
  bool has_turn = false;
  const auto is_over = [&] {
    const std::lock_guard lock(streams.mutex);
    if (streams.is_failed()) return true;
    has_turn = graphs_->runs.empty() && !graphs_->port->has_runs() &&
               (!all_have_come || streams.waiting.empty());
    graphs_->thread_waits = has_turn;
    return has_turn;
  };
  const p2p::WaitEnd end = local_.waiter.wait(
      is_over, [] { return false; }, until, [] { return stats::WaitAbout{}; });
  if (has_turn) return {};
  if (end == p2p::WaitEnd::ready) {
    const std::lock_guard lock(streams.mutex);
    return resume();
  }
  return named(refuse(Code::timeout,
                      [] {
                        return ErrorDetail{.message = "a graph still waits for an earlier tensor",
                                           .hint = "wait again, or longer"};
                      }),
               received_ + 1);
}

void PutOwner::end_turn() noexcept {
  const std::lock_guard lock(streams_made_->mutex);
  graphs_->thread_waits = false;
  if (std::exchange(graphs_->any_late, false))
    streams_made_->fail_next(named(late_stream(), received_ + 1));
  want_serving(*streams_made_);
}

Result<Arrival> PutOwner::wait_beside_graphs(Deadline deadline) noexcept {
  p2p::cuda::reap_graphs();
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (Status status = begin_turn(until, true); !status.ok()) return status;
  Result<Arrival> arrival = take_next(until);
  end_turn();
  return arrival;
}

Result<Arrival> PutOwner::wait_by_beside_graphs(const p2p::cuda::UserStream& user, Deadline until) {
  p2p::cuda::reap_graphs();
  if (Status status = begin_turn(until, false); !status.ok()) return status;
  struct Turn {
    PutOwner& owner;
    ~Turn() { owner.end_turn(); }
  };
  const Turn turn{*this};
  return wait_by(user, until);
}

bool PutOwner::release_held(GraphCall& wait) noexcept {
  const std::uint64_t held = std::exchange(wait.held, 0);
  if (held != 0) released_.release(held, p2p::ReleasedTensors::kAnyReceived);
  return held != 0;
}

bool PutOwner::begin_graph_waits(StreamArrivals& streams) noexcept {
  if (!graphs_) return false;
  std::vector<GraphPort::Run>& runs = graphs_->runs;
  GraphPort& port = *graphs_->port;
  bool any_released = false;
  try {
    if (!port.take(runs)) streams.fail_next(named(p2p::lost_runs(), received_ + 1));
  } catch (...) {
    return false;  // without memory for it, later
  }
  // In no order with waits, which may need them.
  std::erase_if(runs, [&](const GraphPort::Run& run) {
    if (run.call->kind != GraphCall::Kind::release) return false;
    any_released = release_held(*run.call->of) || any_released;
    return true;
  });
  while (const std::uint64_t held = port.next_forgotten()) {
    released_.release(held, p2p::ReleasedTensors::kAnyReceived);
    any_released = true;
  }
  std::size_t begun = 0;
  for (; begun < runs.size() && !graphs_->thread_waits; ++begun) {
    const GraphPort::Run& run = runs[begun];
    const std::uint64_t wanted = received_ + 1;
    // A graph's own release is behind its work: without it the replay before still reads.
    const bool is_read = run.call->is_released && run.call->held != 0;
    if (run.overlaps || is_read)
      fail_overlap(streams, *run.call);
    else  // one that does not release what came before has ended by now
      any_released = release_held(*run.call) || any_released;
    if (!streams.is_failed() && buffers_.sequence_at(buffer_) > wanted)
      streams.fail_next(named(wrong_arrival(wanted, buffers_.sequence_at(buffer_)), wanted));
    if (streams.is_failed()) {
      port.end(*run.call, run.number, streams.failure_code());
      local_.ring();
      continue;
    }
    if (streams.waiting.size() >= spec_.depth || !streams.add(run, wanted, buffer_)) break;
    received_ = wanted;
    pass_buffer();
  }
  runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(begun));
  end_late_runs(streams);
  return any_released;
}

void PutOwner::fail_overlap(StreamArrivals& streams, const GraphCall& call) noexcept {
  const auto first =
      std::ranges::find(streams.waiting, &call, [](const auto& one) { return one.graph.get(); });
  // Both streams go on by the same words, so that neither has got its tensor.
  if (first == streams.waiting.end())
    streams.fail_next(named(p2p::overlap(), received_ + 1));
  else
    streams.fail(static_cast<std::size_t>(first - streams.waiting.begin()),
                 named(p2p::overlap(), first->sequence));
  local_.ring();
}

void PutOwner::end_late_runs(StreamArrivals& streams) noexcept {
  std::erase_if(graphs_->runs, [&](const GraphPort::Run& run) {
    if (!run.until.passed()) return false;
    // A thread that waits has its own time, and the tensor that comes.
    if (graphs_->thread_waits)
      graphs_->any_late = true;
    else
      streams.fail_next(named(late_stream(), received_ + 1));
    graphs_->port->end(*run.call, run.number, static_cast<std::uint32_t>(Code::timeout));
    local_.ring();
    return true;
  });
}

std::optional<Status> PutOwner::copy_to_place(StreamArrivals::Waiting& one) noexcept {
  if (one.graph == nullptr || !one.graph->is_copied) return Status{};
  try {
    const Tensor& from = buffers_.tensor(one.buffer, one.sequence);
    if (!one.copy)
      one.copy = local_.gpus->copy_parts("wait", std::span(&from, 1), one.graph->tensor, {}, {});
  } catch (...) {
    return caught_status();
  }
  auto outcome = one.copy->poll();
  if (outcome && outcome->ok()) row_.gpu_counters().device_copies.add(1);
  return outcome;
}

bool PutOwner::has_come(StreamArrivals::Waiting& one, bool& is_released) noexcept {
  if (one.graph == nullptr) {
    one.wait.end();
    return true;
  }
  if (!one.graph->port->end_last(*one.graph, one.run)) return false;
  if (one.graph->is_copied)
    released_.release(one.sequence, p2p::ReleasedTensors::kAnyReceived);
  else
    one.graph->held = one.sequence;
  is_released = is_released || one.graph->is_copied;
  return true;
}

}  // namespace weft::detail
