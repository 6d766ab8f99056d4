// Puts that are captured in graphs: each replay puts what the tensor holds then.
#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "p2p/slot/put/writer.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::detail {

using p2p::GraphCall;
using p2p::GraphPort;
using p2p::GraphPuts;

std::optional<p2p::cuda::Capture> PutWriter::capture_of(Stream stream, Memory memory) const {
  if (local_.gpus == nullptr) return std::nullopt;  // prepare_stream() says so
  return p2p::cuda::capture_of(*local_.gpus, "put", stream, memory);
}

GraphPuts& PutWriter::graphs() {
  if (streams_->graphs) return *streams_->graphs;
  auto made = std::make_unique<GraphPuts>([this] {
    streams_wait_.store(true, std::memory_order_release);
    local_.service_wanted.store(true, std::memory_order_release);
    local_.progress.post([] {});
  });
  const std::lock_guard lock(pending_.mutex());
  streams_->graphs = std::move(made);
  return *streams_->graphs;
}

Request PutWriter::capture_put(p2p::PendingPut pending, const p2p::cuda::Capture& capture) {
  p2p::check_capture(local_, "put");
  if (dynamic())
    throw_error(Code::bad_argument, "put", "the slot is dynamic, and the stream captures a graph",
                "capture puts into slots of fixed shape");
  const auto parts = pending.all();
  const p2p::cuda::ScopedRelaxation relaxed(capture.stream.gpu->driver());
  p2p::cuda::reap_graphs();
  prepare_for(capture.stream, p2p::memory_of(parts));
  for (const Tensor& part : parts)
    if (part.memory().is_host() && !prepare_host_tensor(capture.stream, part))
      throw_error(Code::bad_argument, "put",
                  "the stream captures a graph, and no GPU can copy the tensor in host memory from "
                  "where it lies",
                  "put a dense tensor of World::allocate, in memory that the driver pins");
  GraphPuts& all = graphs();
  const p2p::cuda::Gpu::Current current(*capture.stream.gpu);
  const auto call = p2p::cuda::handle_of(std::make_unique<GraphCall>(
      GraphCall::Kind::put, all.port, capture, std::chrono::nanoseconds(0)));
  call->tensor = pending.tensor;
  call->parts = pending.parts;
  call->until = pending.until;
  {
    const std::lock_guard lock(pending_.mutex());
    std::erase_if(all.calls, [](const auto& one) { return one.expired(); });
    all.calls.push_back(call);
    call->id = ++all.last_id;
    // A NIC gets to know the memory now, which may take calls of the driver.
    if (p2p::any_on_gpu(parts) && !is_mapped_.load(std::memory_order_relaxed))
      (void)reached_by_nic(parts);
  }
  call->add_to(capture);
  Request request;
  SlotAccess::follow(request, *this, life_, GraphPuts::kOfGraph | call->id);
  return request;
}

Status PutWriter::capture_put_end(std::uint64_t ticket, Stream stream, Deadline deadline) noexcept {
  try {
    std::shared_ptr<GraphCall> put;
    {
      const std::lock_guard lock(pending_.mutex());
      for (const auto& one : streams_->graphs->calls)
        if (auto call = one.lock(); call && (GraphPuts::kOfGraph | call->id) == ticket)
          put = std::move(call);
    }
    const auto capture = capture_of(stream, Memory::host());
    if (!capture || !put || capture->id != put->capture)
      throw_error(Code::bad_argument, "put",
                  "the put is part of a captured graph, and the stream is not of that capture",
                  "let a stream of the capture wait for it, before that ends");
    p2p::check_capture(local_, "put");
    const std::chrono::nanoseconds patience = p2p::patience(local_, deadline);
    const p2p::cuda::ScopedRelaxation relaxed(capture->stream.gpu->driver());
    prepare_for(capture->stream, Memory::host());
    const p2p::cuda::Gpu::Current current(*capture->stream.gpu);
    const auto call = p2p::cuda::handle_of(std::make_unique<GraphCall>(
        GraphCall::Kind::put_end, streams_->graphs->port, *capture, patience));
    call->of = std::move(put);
    call->add_to(*capture);
    return {};
  } catch (...) {
    return put_failure(caught_status());
  }
}

Status PutWriter::put_of_graph(const char* operation) const noexcept {
  return failure(Code::bad_argument, operation,
                 "the put is part of a captured graph, and each replay makes it anew",
                 "let a stream of the capture wait for it: Request::wait_on(stream)");
}

bool PutWriter::queue_graph_puts() noexcept {
  if (!has_graphs()) return true;
  GraphPuts& all = *streams_->graphs;
  (void)move_graphs(all, kMaxPending);
  return all.puts.empty() && all.taken.empty();
}

bool PutWriter::move_graphs(GraphPuts& all, std::size_t most) noexcept {
  try {
    if (!all.port->take(all.taken)) fail_graphs(all, put_failure(p2p::lost_runs()));
    for (GraphPort::Run& run : all.taken) {
      const bool is_put = run.call->kind == GraphCall::Kind::put;
      (is_put ? all.puts : all.ends).push_back(run);
      run.call = nullptr;
    }
  } catch (...) {
    std::erase_if(all.taken, [](const GraphPort::Run& run) { return run.call == nullptr; });
    return false;  // without memory for it, later
  }
  all.taken.clear();
  bool is_news = begin_graph_puts(all, most);
  drain();
  is_news = end_graph_puts(all) || is_news;
  return let_graphs_go(all) || is_news;
}

bool PutWriter::begin_graph_puts(GraphPuts& all, std::size_t most) noexcept {
  std::size_t begun = 0;
  for (; begun < all.puts.size(); ++begun) {
    GraphCall& call = *all.puts[begun].call;
    // After a failure nothing is put until the application has been told of it.
    if (all.is_closed || !streams_->failure.ok()) {
      all.port->end(call, all.puts[begun].number, 0);
      continue;
    }
    if (all.under_way.size() >= most || is_crowded() || !pending_.prepare()) break;
    try {
      p2p::PendingPut put{.tensor = call.tensor, .parts = call.parts, .until = call.until};
      all.under_way.push_back({all.puts[begun]});
      all.under_way.back().ticket = pending_.add(std::move(put));
    } catch (...) {
      break;
    }
  }
  all.puts.erase(all.puts.begin(), all.puts.begin() + static_cast<std::ptrdiff_t>(begun));
  return begun != 0;
}

bool PutWriter::end_graph_puts(GraphPuts& all) noexcept {
  Status failed;
  const std::size_t ended = std::erase_if(all.under_way, [&](const GraphPuts::UnderWay& one) {
    if (!has_ended_locked(one.ticket)) return false;
    if (const Status outcome = outcome_of(one.ticket); !outcome.ok()) {
      look_at(outcome);
      if (failed.ok()) failed = outcome;
    }
    all.port->end(*one.run.call, one.run.number, 0);
    return true;
  });
  if (!failed.ok()) fail_graphs(all, std::move(failed));
  return ended != 0;
}

bool PutWriter::let_graphs_go(GraphPuts& all) noexcept {
  // Streams that wait by the same words go on together, so that all of them have failed.
  for (const GraphPort::Run& run : all.ends)
    if (run.overlaps)
      for (GraphPort::Run& other : all.ends)
        if (other.call == run.call) other.overlaps = true;
  return std::erase_if(all.ends, [&](const GraphPort::Run& run) {
           if (run.overlaps) {
             fail_graphs(all, put_failure(p2p::overlap()));
           } else if (!all.port->has_ended(*run.call->of, run.number)) {
             if (!run.until.passed()) return false;
             fail_graphs(all, late_stream());
           }
           all.port->end(*run.call, run.number, 0);
           return true;
         }) != 0;
}

void PutWriter::fail_graphs(GraphPuts& all, Status why) noexcept {
  if (streams_->failure.ok()) streams_->failure = std::move(why);
  drop_graph_puts(all);
}

void PutWriter::drop_graph_puts(GraphPuts& all) noexcept {
  for (const GraphPort::Run& run : all.puts) all.port->end(*run.call, run.number, 0);
  all.puts.clear();
  // The last one first: one that is cancelled lets those behind it begin.
  for (std::size_t i = all.under_way.size(); i-- > 0;) {
    const GraphPuts::UnderWay& one = all.under_way[i];
    // One that is on its way goes on.
    if (pending_.done(std::memory_order_relaxed) >= one.ticket || !cancel_late(one.ticket))
      continue;
    all.port->end(*one.run.call, one.run.number, 0);
    all.under_way.erase(all.under_way.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace weft::detail
