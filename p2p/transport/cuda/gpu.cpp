#include "p2p/transport/cuda/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "p2p/transport/cuda/api/load.hpp"
#include "p2p/transport/cuda/api/mps.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {

std::shared_ptr<Gpu> Gpu::open(const Driver& driver, int ordinal) {
  const ScopedRelaxation relaxed(driver);
  std::shared_ptr<Gpu> gpu(new Gpu(driver, ordinal));
  gpu->check(driver.retain_context(&gpu->context_, ordinal), "open GPU",
             "cuDevicePrimaryCtxRetain");
  gpu->under_mps_ = runs_under_mps(driver, ordinal);
  const Current current(*gpu);
  for (StreamHandle* stream : {&gpu->stream_, &gpu->stream_to_host_})
    gpu->check(driver.create_stream(stream, kStreamNonBlocking), "open GPU", "cuStreamCreate");
  return gpu;
}

// Errors are of no use here: the driver may have gone before, with its process.
Gpu::~Gpu() {
  if (context_ == nullptr || forked()) {
    (void)words_.release();  // on purpose: they would call the driver
    (void)kernels_.release();
    return;
  }
  if ((words_ != nullptr || kernels_ != nullptr) &&
      driver_.push_context(context_) == DriverStatus::success) {
    words_.reset();
    kernels_.reset();
    Context popped = nullptr;
    (void)driver_.pop_context(&popped);
  }
  (void)words_.release();  // on purpose: nothing can be said of the streams of a GPU that is lost
  (void)kernels_.release();
  for (const Event event : events_) (void)driver_.destroy_event(event);
  for (const StreamHandle stream : streams_) (void)driver_.destroy_stream(stream);
  for (const StreamHandle stream : {stream_, stream_to_host_})
    if (stream != nullptr) (void)driver_.destroy_stream(stream);
  (void)driver_.release_context(ordinal_);
}

Gpu::Current::Current(const Gpu& gpu) : driver_(gpu.driver_) {
  gpu.check(driver_.push_context(gpu.context_), "use GPU", "cuCtxPushCurrent");
}

Gpu::Current::~Current() {
  Context popped = nullptr;
  (void)driver_.pop_context(&popped);
}

Event Gpu::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      const Event event = events_.back();
      events_.pop_back();
      return event;
    }
    events_.reserve(events_.capacity() + 1);  // give_back() must not fail
  }
  Event event = nullptr;
  check(driver_.create_event(&event, kEventDisableTiming), "use GPU", "cuEventCreate");
  return event;
}

void Gpu::give_back(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  if (events_.size() < events_.capacity())
    events_.push_back(event);
  else
    (void)driver_.destroy_event(event);
}

bool Gpu::has_idle_stream() const noexcept {
  const ScopedRelaxation relaxed(driver_);
  return driver_.query_stream(stream_) != DriverStatus::not_ready;
}

StreamHandle Gpu::take_stream() {
  const std::lock_guard lock(mutex_);
  // Copies of an earlier user that are held up still would hold up those of this one.
  const ScopedRelaxation relaxed(driver_);
  const auto idle = std::ranges::find_if(streams_, [this](StreamHandle stream) {
    return driver_.query_stream(stream) != DriverStatus::not_ready;
  });
  if (idle != streams_.end()) {
    const StreamHandle stream = *idle;
    streams_.erase(idle);
    return stream;
  }
  streams_.reserve(streams_.capacity() + 1);  // give_back() must not fail
  StreamHandle stream = nullptr;
  check(driver_.create_stream(&stream, kStreamNonBlocking), "use GPU", "cuStreamCreate");
  return stream;
}

void Gpu::give_back(StreamHandle stream) noexcept {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

StreamWords& Gpu::words(const char* operation) {
  const std::lock_guard making(words_mutex_);
  if (words_ == nullptr) {
    auto made = std::make_unique<StreamWords>(*this, operation);
    made->make_events(*this);
    words_ = std::move(made);
    words_in_use_.store(words_.get(), std::memory_order_release);
  }
  return *words_;
}

GpuKernels& Gpu::kernels() {
  const std::lock_guard lock(kernels_mutex_);
  if (kernels_ == nullptr) kernels_ = std::make_unique<GpuKernels>(*this);
  return *kernels_;
}

bool Gpu::has_looked_for_kernels() noexcept {
  const std::lock_guard lock(kernels_mutex_);
  return kernels_ != nullptr;
}

void Gpu::check(DriverStatus status, const char* operation, const char* function) const {
  if (status == DriverStatus::success) return;
  const bool no_memory = status == DriverStatus::out_of_memory;
  throw_error(no_memory ? Code::exhausted : Code::system, operation,
              fmt::format("GPU {}: {} failed: {}", ordinal_, function, error_text(driver_, status)),
              no_memory ? "ask for less, or free tensors on that GPU"
                        : "check nvidia-smi, and the kernel's log");
}

Status Gpu::outcome(DriverStatus status, const char* operation,
                    const char* function) const noexcept {
  if (status == DriverStatus::success) return {};
  try {
    check(status, operation, function);
  } catch (...) {
    return caught_status();
  }
  return {};
}

}  // namespace weft::p2p::cuda
