#include "p2p/transport/cuda/device_copy.hpp"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <mutex>

#include "base/clock.hpp"
#include "base/fail.hpp"
#include "p2p/transport/cuda/capture.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

/// Copies whose owners went first, perhaps with their world, so these belong to none. Thread-safe.
class LateCopies {
 public:
  void add(std::unique_ptr<CopyUnderWay> copy) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      all_.push_back(std::move(copy));
      any_.store(true, std::memory_order_relaxed);
    } catch (...) {
      (void)copy.release();  // on purpose: the GPU may still use its memory
    }
  }
  /// Returns whether any is left.
  bool reap() {
    if (!any_.load(std::memory_order_relaxed)) return false;
    // These go when the lock has: they may hold the last handle of memory whose deleter is the
    // user's.
    std::vector<std::unique_ptr<CopyUnderWay>> ended;
    const std::lock_guard lock(mutex_);
    for (std::unique_ptr<CopyUnderWay>& late : all_) {
      const ScopedRelaxation relaxed(late->gpu->driver());
      if (late->query() != DriverStatus::not_ready) ended.push_back(std::move(late));
    }
    std::erase(all_, nullptr);
    any_.store(!all_.empty(), std::memory_order_relaxed);
    return !all_.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<CopyUnderWay>> all_;
  std::atomic<bool> any_{false};
};

LateCopies& late_copies() {
  static auto* const all = new LateCopies;
  return *all;
}

}  // namespace

Begun record_work(std::unique_ptr<CopyUnderWay> work, StreamHandle stream, DriverStatus status,
                  std::size_t begun_parts, const char* function) noexcept {
  const std::shared_ptr<Gpu> gpu = work->gpu;
  const char* const operation = work->operation;
  Begun begun{.status = gpu->outcome(status, operation, function)};
  if (!begun.status.ok() && begun_parts == 0) return begun;
  const DriverStatus recorded = gpu->driver().record_event(work->event, stream);
  work->stream = stream;
  work->has_no_mark = recorded != DriverStatus::success;
  if (begun.status.ok()) begun.status = gpu->outcome(recorded, operation, "cuEventRecord");
  begun.work.emplace(std::move(work));
  return begun;
}

DeviceCopy begun_copy(std::unique_ptr<CopyUnderWay> copy, StreamHandle stream, DriverStatus status,
                      std::size_t begun_parts, const char* function) {
  Begun begun = record_work(std::move(copy), stream, status, begun_parts, function);
  begun.status.or_throw();
  return *std::move(begun.work);
}

bool reap_late_copies() {
  const bool are_left = late_copies().reap();
  take_from_graphs();
  return are_left;
}

std::optional<Status> DeviceCopy::poll_chunks(std::size_t& there) noexcept {
  if (!outcome_) {
    const Gpu& gpu = *copy_->gpu;
    const ScopedRelaxation relaxed(gpu.driver());
    for (; copy_->there < copy_->chunks.size(); ++copy_->there) {
      const DriverStatus status = gpu.driver().query_event(copy_->chunks[copy_->there]);
      there = copy_->there;
      if (status == DriverStatus::not_ready) return std::nullopt;
      if (status != DriverStatus::success)
        return gpu.outcome(status, copy_->operation, "cuEventQuery");
    }
  }
  there = copy_->there;
  if (const auto outcome = poll(); !outcome || !outcome->ok()) return outcome;
  ++there;
  return outcome_;
}

std::optional<Status> DeviceCopy::poll() noexcept {
  if (outcome_) return outcome_;
  const Gpu& gpu = *copy_->gpu;
  const ScopedRelaxation relaxed(gpu.driver());
  const DriverStatus status = copy_->query();
  if (status == DriverStatus::not_ready) return std::nullopt;
  copy_->return_event();
  outcome_ =
      gpu.outcome(status, copy_->operation, copy_->has_no_mark ? "cuStreamQuery" : "cuEventQuery");
  copy_->tensors.clear();
  return outcome_;
}

Status DeviceCopy::hold_up(StreamHandle stream) const noexcept {
  const Gpu& gpu = *copy_->gpu;
  return gpu.outcome(gpu.driver().wait_event(stream, copy_->event, 0), copy_->operation,
                     "cuStreamWaitEvent");
}

void DeviceCopy::leave() noexcept {
  if (copy_ == nullptr || outcome_) return;
  if (copy_->gpu->forked())
    (void)copy_.release();  // a fork has no GPU
  else if (!poll())
    late_copies().add(std::move(copy_));
}

OwnedBlock finish_page(const char* operation, DeviceCopy copy) {
  constexpr std::chrono::seconds kLongest{5};
  const auto until = Clock::now() + kLongest;
  for (;;) {
    if (const auto outcome = copy.poll()) {
      outcome->or_throw();
      return copy.take_block();
    }
    if (Clock::now() > until)
      throw_error(Code::system, operation, "the GPU has not copied a page in time");
    sched_yield();
  }
}

}  // namespace weft::p2p::cuda
