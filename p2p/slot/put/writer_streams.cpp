// Puts behind the work of a stream, and streams that wait for the ends of puts.
#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/put/writer.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

Status PutWriter::put_failure(const Status& why) const noexcept {
  return failure(why.code(), "put", why.detail().message, why.detail().hint);
}

Status PutWriter::take_stream_failure() noexcept {
  const std::lock_guard lock(pending_.mutex());
  return streams_ ? std::exchange(streams_->failure, {}) : Status{};
}

p2p::cuda::UserStream PutWriter::prepare_stream(Stream stream, Memory memory) {
  if (local_.gpus == nullptr)
    throw_error(Code::bad_argument, "put", "a stream is given, and this rank has no GPU", "");
  auto user = local_.gpus->user_stream("put", stream, memory);
  prepare_for(user, memory);
  return user;
}

void PutWriter::prepare_for(const p2p::cuda::UserStream& user, Memory memory) {
  if (!streams_ || user.gpu->words_in_use() == nullptr) {
    p2p::wait_for_streams(local_, "put", Deadline().resolve(local_.waiter.default_timeout()));
    const p2p::cuda::Gpu::Current current(*user.gpu);
    (void)user.gpu->words("put");
  }
  if (streams_) {
    if (memory.is_gpu()) prepare_copies(user.gpu);
    return;
  }
  auto made = std::make_unique<p2p::StreamPuts>();
  const Deadline until = Deadline().resolve(local_.waiter.default_timeout());
  std::unique_lock lock(pending_.mutex());
  // Room for what may have to be staged: later there may be streams that wait.
  while (!dynamic()) {
    if (!pack_) pack_ = p2p::OwnedBlock(local_.staging, bytes_);
    if (p2p::pin_for_streams(local_, "put", user.gpu, pack_, until)) break;
    lock.unlock();
    p2p::wait_for_streams(local_, "put", until);
    lock.lock();
  }
  streams_ = std::move(made);
  queues_ = true;
  prepare_copies(user.gpu);
}

void PutWriter::prepare_copies(const std::shared_ptr<p2p::cuda::Gpu>& gpu) {
  const p2p::cuda::Gpu::Current current(*gpu);
  (void)streams_->own->of(gpu);
}

bool PutWriter::prepare_host_tensor(const p2p::cuda::UserStream& user, const Tensor& tensor) {
  if (!mapped_ || !is_mapped_.load(std::memory_order_relaxed)) return true;
  const auto& arena = tensor.arena() == local_.data.get() ? local_.data : local_.published;
  if (tensor.arena() != arena.get()) return false;
  const auto at = arena->locate(tensor.data(), tensor.extent());
  if (!at || !tensor.dense()) return false;
  if (!local_.gpus->pins().is_pinned(at->chunk)) {
    p2p::wait_for_streams(local_, "put", Deadline().resolve(local_.waiter.default_timeout()));
    local_.gpus->pin(user.gpu, arena, at->chunk);
  }
  return local_.gpus->pins().is_pinned(at->chunk).value_or(false);
}

p2p::OwnedBlock PutWriter::prepare_dynamic(const p2p::cuda::UserStream& user,
                                           const Tensor& tensor) {
  if (tensor.memory().is_host() || tensor.bytes() == 0 || owner_.channel->reaches_gpu(tensor))
    return {};
  p2p::OwnedBlock stage(local_.data, tensor.bytes());
  if (!local_.gpus->pins().is_pinned(stage.block().chunk)) {
    p2p::wait_for_streams(local_, "put", Deadline().resolve(local_.waiter.default_timeout()));
    local_.gpus->pin(user.gpu, stage.arena(), stage.block().chunk);
  }
  return stage;
}

Request PutWriter::enqueue_behind(p2p::PendingPut pending, Stream stream) {
  const auto parts = pending.all();
  const Memory memory = p2p::memory_of(parts);
  if (const auto capture = capture_of(stream, memory))
    return capture_put(std::move(pending), *capture);
  const auto user = prepare_stream(stream, memory);
  if (dynamic()) pending.stage = prepare_dynamic(user, pending.tensor);
  auto point = std::make_shared<p2p::cuda::StreamPoint>(user, "put", streams_->own);
  bool is_prepared = true;
  for (const Tensor& part : parts)
    if (part.memory().is_host() && !prepare_host_tensor(user, part)) is_prepared = false;
  if (is_prepared) {
    pending.after = std::move(point);
  } else if (Status status = wait_for_point(*point); !status.ok()) {
    // A GPU takes it from a packed copy, which is made once it is written.
    throw Error(status);
  }
  return enqueue(std::move(pending), Crowded::wait);
}

Request PutWriter::put_behind(std::span<const Tensor> parts, Stream stream, Until until) noexcept {
  Request request;
  if (stream.none()) return put(parts, until);
  if (over()) [[unlikely]] {
    SlotAccess::outcome(request) = refusal("put");
    return request;
  }
  Status status = check_gather(parts);
  if (status.ok()) status = take_stream_failure();
  try {
    if (status.ok())
      return enqueue_behind({.parts = {parts.begin(), parts.end()}, .until = until}, stream);
  } catch (...) {
    status = put_failure(caught_status());
  }
  end_refused(request, status);
  return request;
}

Request PutWriter::put_behind(const Tensor& tensor, Stream stream, Until until) noexcept {
  Request request;
  if (stream.none()) return put(tensor, until);
  if (over()) [[unlikely]] {
    SlotAccess::outcome(request) = refusal("put");
    return request;
  }
  const bool same_shape =
      dynamic() ? tensor.shape().dims() == spec_.shape.dims() : tensor.shape() == spec_.shape;
  const bool fits = same_shape && tensor.dtype() == spec_.dtype && !lacks_memory(tensor);
  Status status = fits ? check_gpu_tensors(std::span(&tensor, 1)) : refuse_tensor(tensor);
  if (status.ok()) status = take_stream_failure();
  try {
    if (status.ok()) return enqueue_behind({.tensor = tensor, .until = until}, stream);
  } catch (...) {
    status = put_failure(caught_status());
  }
  end_refused(request, status);
  return request;
}

Status PutWriter::wait_for_point(const p2p::cuda::StreamPoint& point) noexcept {
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return point.poll(); }, Deadline().resolve(local_.waiter.default_timeout()),
      [&] { return about(stats::Operation::put, credits_.sent() + 1); });
  if (outcome) return outcome->ok() ? *outcome : put_failure(*outcome);
  return failure(Code::timeout, "put", "the stream has not come to the put within its time", "");
}

bool PutWriter::is_due(p2p::PendingPut& put) noexcept {
  if (!put.after) return true;
  // A GPU's copy waits for itself, a NIC and the processor do not.
  const bool is_copied = p2p::all_on_gpu(put.all()) &&
                         (is_mapped_.load(std::memory_order_relaxed) || !reached_by_nic(put.all()));
  if (is_copied) return true;
  const auto passed = put.after->poll();
  if (!passed) return false;
  put.after = nullptr;
  if (!passed->ok()) put.outcome = put_failure(*passed);
  return true;
}

Status PutWriter::wait_put_on(std::uint64_t ticket, Stream stream, Deadline deadline) noexcept {
  if (Status earlier = take_stream_failure(); !earlier.ok()) return earlier;
  if (p2p::GraphPuts::is_of_graph(ticket)) return capture_put_end(ticket, stream, deadline);
  if (put_ended(ticket)) return wait_put(ticket, deadline);
  try {
    Memory memory;
    if (stream.handle() == nullptr) {
      // The default stream is one of each GPU: the tensor's is meant.
      const std::lock_guard lock(pending_.mutex());
      memory = pending_.memory_of(ticket);
    }
    const auto user = prepare_stream(stream, memory);
    if (p2p::waits_on_thread(local_)) return wait_put(ticket, deadline);
    const Deadline until = deadline.resolve(local_.waiter.default_timeout());
    // Without the mutex: the driver waits here while the stream is full.
    p2p::cuda::StreamWait wait;
    {
      const p2p::cuda::Gpu::Current current(*user.gpu);
      wait = p2p::cuda::StreamWait(user.gpu, "put", user.handle);
    }
    {
      const std::lock_guard lock(pending_.mutex());
      streams_->waiting.push_back({ticket, until, std::move(wait)});
    }
    streams_wait_.store(true, std::memory_order_release);
    local_.want_service();
    return {};
  } catch (...) {
    return put_failure(caught_status());
  }
}

bool PutWriter::serve_streams() noexcept {
  // Runs of graphs that begin meanwhile set it again.
  if (!streams_wait_.load(std::memory_order_acquire) ||
      !streams_wait_.exchange(false, std::memory_order_acq_rel))
    return false;
  const std::lock_guard lock(pending_.mutex());
  const std::uint64_t done = pending_.done(std::memory_order_relaxed);
  drain();
  bool is_news = pending_.done(std::memory_order_relaxed) != done;
  std::erase_if(streams_->waiting, [&](p2p::StreamPuts::Waiting& one) {
    bool is_over = has_ended_locked(one.ticket);
    Status outcome = is_over ? outcome_of(one.ticket) : Status{};
    if (!is_over && one.until.passed()) {
      outcome = late_stream();
      if (streams_->graphs) drop_graph_puts(*streams_->graphs);  // none goes in its place
      (void)cancel_late(one.ticket);
      is_over = true;
    }
    if (!outcome.ok()) {
      look_at(outcome);
      if (streams_->failure.ok()) streams_->failure = outcome;
    }
    if (is_over) one.wait.end();
    is_news = is_news || is_over;
    return is_over;
  });
  p2p::GraphPuts* const graphs = streams_->graphs.get();
  if (graphs != nullptr) is_news = move_graphs(*graphs) || is_news;
  if (is_news) local_.ring();  // a thread may wait for the same put
  const bool any = !streams_->waiting.empty() || (graphs != nullptr && graphs->are_under_way());
  if (!any) return false;
  streams_wait_.store(true, std::memory_order_release);
  local_.progress.turn_soon();
  return any;
}

Status PutWriter::late_stream() const noexcept {
  return failure(Code::timeout, "put", "a stream waited for a put that did not end in time",
                 "is the owner at the same step? a longer deadline: WEFT_TIMEOUT");
}

bool PutWriter::cancel_late(std::uint64_t ticket) noexcept {
  bool ended = true;
  const Status cancelled = cancel_locked(ticket, ended);
  const bool is_cancelled = ended && cancelled.code() == Code::cancelled;
  if (is_cancelled) pending_.at(ticket).outcome = cancelled;
  return is_cancelled;
}

bool PutWriter::has_ended_locked(std::uint64_t ticket) noexcept {
  if (dynamic()) return is_read(ticket);
  if (pending_.done(std::memory_order_relaxed) < ticket) return false;
  in_flight_.poll(*owner_.channel);
  return !in_flight_.holds_up(ticket);
}

void PutWriter::drop_streams() noexcept {
  if (!streams_) return;
  // Those of the others must not write what a NIC reads: serve_streams() lets them go on.
  std::erase_if(streams_->waiting, [this](const p2p::StreamPuts::Waiting& one) {
    return one.ticket > pending_.done(std::memory_order_relaxed);
  });
}

}  // namespace weft::detail
