// Arrivals that streams wait for in place of the thread.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/fail.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/put/owner.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::StreamArrivals;

namespace {

/// A stream of a world that goes gets to its releases well before.
constexpr std::chrono::seconds kMostForReleases{20};

}  // namespace

Status PutOwner::named(const Status& status, std::uint64_t wanted) const {
  return altered(status, [&](ErrorDetail& detail) {
    detail.operation = "wait";
    detail.slot = spec_.name;
    detail.rank = local_.rank;
    detail.sequence_expected = wanted;
    detail.sequence_seen = wanted - 1;
  });
}

Result<Arrival> PutOwner::wait_on(Stream stream, Deadline deadline) noexcept {
  if (stream.none()) return wait(deadline);
  try {
    if (dynamic())
      throw_error(Code::bad_argument, "wait", "no stream waits for the tensors of a dynamic slot",
                  "wait on the thread: memory is made for each tensor");
    if (local_.gpus == nullptr)
      throw_error(Code::bad_argument, "wait", "a stream is given, and this rank has no GPU", "");
    if (const auto capture = p2p::cuda::capture_of(*local_.gpus, "wait", stream, captured_memory()))
      return capture_wait(*capture, deadline);
    const auto user = user_stream("wait", stream);
    if (buffers_.gpu() == nullptr || p2p::waits_on_thread(local_)) return wait(deadline);
    const Deadline until = deadline.resolve(local_.waiter.default_timeout());
    prepare_streams(user.gpu, until);
    return graphs_ ? wait_by_beside_graphs(user, until) : wait_by(user, until);
  } catch (...) {
    return named(caught_status(), received_ + 1);
  }
}

p2p::cuda::UserStream PutOwner::user_stream(const char* operation, Stream stream) {
  // The default stream is one of each GPU: the slot's is meant.
  return local_.gpus->user_stream(operation, stream,
                                  stream.handle() == nullptr ? spec_.memory : Memory::host());
}

void PutOwner::prepare_streams(const std::shared_ptr<p2p::cuda::Gpu>& gpu, Deadline until) {
  if (streams_made_ && gpu->words_in_use() != nullptr) return;
  // Words and pins are made by calls that may wait for all streams.
  do wait_for_streams(local_, "wait", until);
  while (!pin_for_streams(local_, "wait", gpu, buffers_.gpu()->stage(), until));
  {
    const p2p::cuda::Gpu::Current current(*gpu);
    p2p::cuda::StreamWords& words = gpu->words("wait");
    if (streams_made_) return;  // a stream of another GPU than those before
    streams_made_ = std::make_unique<StreamArrivals>(gpu, words, spec_.depth);
  }
  streams_.store(streams_made_.get(), std::memory_order_release);
}

Result<Arrival> PutOwner::wait_by(const p2p::cuda::UserStream& user, Deadline until) {
  StreamArrivals& streams = *streams_made_;
  const auto is_free = [&] {
    const std::lock_guard lock(streams.mutex);
    return streams.waiting.size() < spec_.depth || streams.is_failed();
  };
  if (!is_free()) {
    // Each buffer is waited for already.
    stats::WaitDetailsRoom details;
    if (local_.waiter.wait(
            is_free, [] { return false; }, until,  // a peer's end fails the streams
            [&] { return waits_for(received_ + 1, details.make()); }) != p2p::WaitEnd::ready)
      throw_error(Code::timeout, "wait",
                  fmt::format("{} tensors are waited for by streams, and none came", spec_.depth),
                  "is the writer at the same step?");
  }
  const std::uint64_t wanted = received_ + 1;
  std::unique_lock lock(streams.mutex);
  if (streams.is_failed()) return resume();
  const std::uint64_t seen = buffers_.sequence_at(buffer_);
  if (seen > wanted) return wrong_arrival(wanted, seen);
  const bool is_there =
      seen == wanted && streams.waiting.empty() && buffers_.came_to_gpu(buffer_, wanted);
  std::uint32_t* outcome = nullptr;
  if (is_there) {
    outcome = streams.next_outcome();
    count_arrival();
  } else {
    // Without the mutex: the driver waits here while the stream is full.
    lock.unlock();
    p2p::cuda::StreamWait wait;
    {
      const p2p::cuda::Gpu::Current current(*user.gpu);
      wait = p2p::cuda::StreamWait(user.gpu, "wait", user.handle);
    }
    lock.lock();
    if (streams.is_failed()) return resume();
    StreamArrivals::Waiting& one = streams.waiting.emplace_back();
    try {
      outcome = streams.next_outcome();
    } catch (...) {
      streams.waiting.pop_back();
      throw;
    }
    one.sequence = wanted;
    one.buffer = buffer_;
    one.until = until;
    one.outcome = outcome;
    one.wait = std::move(wait);
    want_serving(streams);
  }
  received_ = wanted;
  const Tensor& tensor = buffers_.tensor(buffer_, wanted);
  pass_buffer();
  held_.handed_out();
  return SlotAccess::received(*this, tensor, wanted, outcome);
}

void PutOwner::count_arrival() noexcept {
  counters_.transfers.add(1);
  counters_.bytes_moved.add(buffers_.tensor_bytes());
}

Status PutOwner::come_after_streams(Deadline deadline) noexcept {
  StreamArrivals& streams = *streams_made_;
  const auto is_next = [&] {
    const std::lock_guard lock(streams.mutex);
    return streams.waiting.empty() || streams.is_failed();
  };
  if (is_next()) return {};
  const std::uint64_t wanted = received_ + 1;
  stats::WaitDetailsRoom details;
  if (local_.waiter.wait(
          is_next, [] { return false; }, deadline.resolve(local_.waiter.default_timeout()),
          [&] { return waits_for(wanted, details.make()); }) == p2p::WaitEnd::ready)
    return {};
  return named(refuse(Code::timeout,
                      [] {
                        return ErrorDetail{.message = "a stream still waits for an earlier tensor",
                                           .hint = "wait again"};
                      }),
               wanted);
}

Status PutOwner::resume() noexcept {
  auto [why, from] = streams_made_->take_failure();
  if (from) {
    received_ = from->sequence - 1;
    buffer_ = from->buffer;
  }
  return std::move(why);
}

void PutOwner::want_serving(StreamArrivals& streams) {
  if (std::exchange(streams.is_served, true)) return;
  wants_serving_.store(true, std::memory_order_release);
  local_.want_service();
}

Status PutOwner::release_behind(std::uint64_t sequence, const std::uint32_t* outcome,
                                Stream stream) noexcept {
  try {
    if (dynamic() || local_.gpus == nullptr)
      throw_error(Code::bad_argument, "release",
                  dynamic() ? "no stream releases the tensors of a dynamic slot"
                            : "a stream is given, and this rank has no GPU",
                  "release it on the thread");
    if (sequence == 0) {
      capture_release(outcome, stream);
      return {};
    }
    const auto user = user_stream("release", stream);
    if (held_.is_kept()) return pass_on_thread(user);
    prepare_releases(user.gpu);
    StreamArrivals& streams = *streams_made_;
    auto point = std::make_unique<p2p::cuda::StreamPoint>(user, "release", nullptr);
    const std::lock_guard lock(streams.mutex);
    StreamArrivals::Releasing& one = streams.releasing.emplace_back();
    one = {sequence, outcome, std::move(point), streams.forget_void(outcome)};
    want_serving(streams);
    return {};
  } catch (...) {
    return altered(caught_status(), [&](ErrorDetail& detail) { detail.slot = spec_.name; });
  }
}

Status PutOwner::pass_on_thread(const p2p::cuda::UserStream& user) {
  const p2p::cuda::StreamPoint point(user, "release", nullptr);
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return point.poll(); }, Deadline().resolve(local_.waiter.default_timeout()),
      [] { return stats::WaitAbout{}; });
  if (!outcome)
    throw_error(Code::timeout, "release", "the stream has not come to the release in time",
                "its slot is closed: the memory goes with this arrival");
  return *outcome;
}

void PutOwner::prepare_releases(const std::shared_ptr<p2p::cuda::Gpu>& gpu) {
  if (streams_made_) return;
  if (buffers_.gpu() != nullptr)
    return prepare_streams(gpu, Deadline().resolve(local_.waiter.default_timeout()));
  wait_for_streams(local_, "release", Deadline().resolve(local_.waiter.default_timeout()));
  const p2p::cuda::Gpu::Current current(*gpu);
  streams_made_ = std::make_unique<StreamArrivals>(gpu, gpu->words("release"), spec_.depth);
  streams_.store(streams_made_.get(), std::memory_order_release);
}

Memory PutOwner::captured_memory() const noexcept {
  return buffers_.gpu() == nullptr ? Memory::host() : spec_.memory;
}

bool PutOwner::release_by_streams(std::uint64_t sequence, const std::uint32_t* outcome) noexcept {
  StreamArrivals& streams = *streams_made_;
  const std::lock_guard lock(streams.mutex);
  if (streams.forget_void(outcome)) {
    streams.free_outcome(outcome);
    return false;
  }
  if (streams.is_awaited(sequence)) {
    try {
      streams.releasing.push_back({.sequence = sequence, .outcome = outcome});
      want_serving(streams);
    } catch (...) {
      local_.log->error(Subsystem::slot, "no memory to release a tensor of slot \"{}\"",
                        spec_.name);
    }
    return false;
  }
  streams.free_outcome(outcome);
  released_.release(sequence, p2p::ReleasedTensors::kAnyReceived);
  return true;
}

std::optional<Status> PutOwner::bring(const StreamArrivals::Waiting& one) noexcept {
  if (buffers_.sequence_at(one.buffer) < one.sequence) {
    begin_unstaging_early(one.buffer, one.sequence);
    return std::nullopt;
  }
  if (buffers_.came_to_gpu(one.buffer, one.sequence)) return Status{};
  try {
    if (local_.require_gdr) return staging_refusal();
    begin_unstaging(one.buffer, one.sequence);
  } catch (...) {
    return caught_status();
  }
  auto outcome = buffers_.gpu()->poll(one.buffer);
  if (!outcome || !outcome->ok()) return outcome;
  row_.gpu_counters().staged_bytes.add(buffers_.tensor_bytes());
  row_.gpu_counters().device_copies.add(1);
  return outcome;
}

Status PutOwner::why_broken() noexcept {
  if (refused_.is_kept()) return refused_.take();
  Status status = needs_.status();
  const int writer = last_writer_.load(std::memory_order_acquire);
  return status.ok() && writer >= 0 ? mesh_.peer_status(writer) : status;
}

bool PutOwner::serve_streams() noexcept {
  StreamArrivals* const streams = streams_.load(std::memory_order_acquire);
  if (streams == nullptr) return false;
  const std::lock_guard lock(streams->mutex);
  const auto fail = [&](std::size_t kept, const Status& why) {
    streams->fail(kept, named(why, streams->waiting[kept].sequence));
    local_.ring();
  };
  bool is_released = begin_graph_waits(*streams);
  while (!streams->waiting.empty()) {
    StreamArrivals::Waiting& first = streams->waiting.front();
    auto outcome = bring(first);
    if (outcome && outcome->ok()) outcome = copy_to_place(first);
    if (!outcome) break;
    if (!outcome->ok()) {
      fail(0, *outcome);
      break;
    }
    if (!has_come(first, is_released)) {
      fail(0, p2p::overlap());
      break;
    }
    streams->waiting.pop_front();
    count_arrival();
    local_.ring();
    is_released = begin_graph_waits(*streams) || is_released;  // there is room for one more
  }
  if (!streams->waiting.empty() && broken() &&
      buffers_.sequence_at(streams->waiting.front().buffer) < streams->waiting.front().sequence) {
    if (const Status why = why_broken(); !why.ok()) fail(0, why);
  }
  for (std::size_t i = 0; i < streams->waiting.size(); ++i)
    if (streams->waiting[i].until.passed()) {
      fail(i, late_stream());
      break;
    }
  release_what_streams_have_passed(*streams, is_released);
  streams->is_served = !streams->waiting.empty() || !streams->releasing.empty() ||
                       (graphs_ && graphs_->are_under_way());
  return streams->is_served;
}

Status PutOwner::late_stream() const noexcept {
  return refuse(Code::timeout, [&] {
    return ErrorDetail{.message = "a stream waited for a tensor that did not come",
                       .hint = "is the writer at the same step? a longer deadline: WEFT_TIMEOUT",
                       .peer = last_writer_.load(std::memory_order_acquire)};
  });
}

void PutOwner::release_what_streams_have_passed(StreamArrivals& streams, bool any) noexcept {
  std::erase_if(streams.releasing, [&](const StreamArrivals::Releasing& one) {
    if ((!one.is_void && streams.is_awaited(one.sequence)) ||
        (one.after != nullptr && !one.after->poll()))
      return false;
    streams.free_outcome(one.outcome);
    if (one.is_void) return true;
    released_.release(one.sequence, p2p::ReleasedTensors::kAnyReceived);
    any = true;
    return true;
  });
  const Attachment* const attachment = writer_.load(std::memory_order_acquire);
  // The gate is shut on this thread, and entered on the application's alone.
  if (any && !closed_ && credits_.kept() && attachment != nullptr && !attachment->gate.is_shut())
    write_all_credits(*attachment);
}

void PutOwner::end_streams() noexcept {
  StreamArrivals* const streams = streams_.load(std::memory_order_acquire);
  if (streams == nullptr) return;
  const std::lock_guard lock(streams->mutex);
  if (!streams->waiting.empty())
    streams->fail(0,
                  failure(Code::closed, "wait", "the slot was closed before the tensor came", ""));
  if (graphs_) graphs_->end_all();
  // Until what is before their releases is done, GPUs use the memory: serve() sees to it.
}

void PutOwner::abandon_streams() noexcept {
  StreamArrivals* const streams = streams_.load(std::memory_order_acquire);
  if (streams == nullptr) return;
  const auto have_passed = [&] {
    const std::lock_guard lock(streams->mutex);
    return std::ranges::all_of(streams->releasing, [](const StreamArrivals::Releasing& one) {
      return one.after == nullptr || one.after->poll();
    });
  };
  if (!have_passed() && !local_.waiter.wait_alone(have_passed, kMostForReleases))
    local_.log->warn(
        Subsystem::slot,
        "slot \"{}\" goes while a stream still works on a tensor that it is to release",
        spec_.name);
  const std::lock_guard lock(streams->mutex);
  streams->releasing.clear();
}

}  // namespace weft::detail
