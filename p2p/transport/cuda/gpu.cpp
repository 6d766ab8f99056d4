#include "p2p/transport/cuda/gpu.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/transport/cuda/api/load.hpp"

namespace weft::p2p::cuda {

std::shared_ptr<Gpu> Gpu::open(const Driver& driver, int ordinal) {
  std::shared_ptr<Gpu> gpu(new Gpu(driver, ordinal));
  gpu->check(driver.retain_context(&gpu->context_, ordinal), "open GPU",
             "cuDevicePrimaryCtxRetain");
  const Current current(*gpu);
  for (StreamHandle* stream : {&gpu->stream_, &gpu->stream_to_host_})
    gpu->check(driver.create_stream(stream, kStreamNonBlocking), "open GPU", "cuStreamCreate");
  return gpu;
}

// Errors are of no use here: the driver may have gone before, with its process.
Gpu::~Gpu() {
  if (context_ == nullptr || forked()) return;
  for (const Event event : events_) (void)driver_.destroy_event(event);
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
