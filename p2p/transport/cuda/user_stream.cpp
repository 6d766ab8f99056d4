#include "p2p/transport/cuda/user_stream.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {

int gpu_of_stream(const Driver& driver, const char* operation, void* handle) {
  Context context = nullptr;
  Device device = -1;
  if (driver.stream_context(static_cast<StreamHandle>(handle), &context) != DriverStatus::success ||
      driver.push_context(context) != DriverStatus::success)
    throw_error(Code::bad_argument, operation,
                fmt::format("there is no stream {}", fmt::ptr(handle)),
                "give a stream that this process has created and not destroyed");
  const DriverStatus status = driver.context_device(&device);
  (void)driver.pop_context(&context);
  return status == DriverStatus::success ? device : -1;
}

UserStream Gpus::user_stream(const char* operation, Stream stream, Memory memory, bool* captures) {
  UserStream found;
  {
    const std::lock_guard lock(mutex_);
    if (stream.handle() != nullptr) {
      const int ordinal = gpu_of_stream(driver(operation), operation, stream.handle());
      if (memory.is_gpu() && ordinal != memory.ordinal())
        throw_error(
            Code::bad_argument, operation,
            fmt::format("the stream is of GPU {}, and the tensor is on {}", ordinal, memory.text()),
            "give a stream of the tensor's GPU");
      memory = Memory::gpu(ordinal);
    } else if (memory.is_host()) {
      memory = Memory::gpu();
    }
    found.gpu = gpu(operation, memory);
  }
  found.handle = static_cast<StreamHandle>(stream.handle());
  const Gpu::Current current(*found.gpu);
  CaptureStatus capture{};
  found.gpu->check(found.gpu->driver().capture_status(found.handle, &capture), operation,
                   "cuStreamIsCapturing");
  if (captures != nullptr && capture == CaptureStatus::active) {
    *captures = true;
    return found;
  }
  if (capture != CaptureStatus::none)
    throw_error(Code::bad_argument, operation, "the stream captures a graph",
                "this call is no part of graphs: make it outside of the capture");
  return found;
}

bool launches_block() noexcept {
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  return blocking != nullptr && std::string_view(blocking) != "0" && *blocking != '\0';
}

bool Gpus::any_stream_waits(bool or_may) const noexcept {
  if (meetings.any_under_way()) return true;
  const std::lock_guard lock(mutex_);
  for (const auto& [ordinal, gpu] : gpus_) {
    const StreamWords* const words = gpu == nullptr ? nullptr : gpu->words_in_use();
    if (words != nullptr && (words->waiting() > 0 || (or_may && words->captured() > 0)))
      return true;
  }
  return false;
}

void Gpus::pin(const std::shared_ptr<Gpu>& by, const std::shared_ptr<Arena>& arena,
               std::uint32_t chunk) {
  const Gpu::Current current(*by);
  pins_->pin(by, arena, chunk, [this] { return any_stream_waits(); });
}

void Gpus::pin_chunk(const std::shared_ptr<Gpu>& by, const std::shared_ptr<Arena>& arena,
                     std::uint32_t chunk) {
  pins_->pin(by, arena, chunk, [this] { return any_stream_waits(true); });
}

OwnStreams::~OwnStreams() {
  for (const auto& [gpu, stream] : streams_)
    if (!gpu->forked()) gpu->give_back(stream);
}

StreamHandle OwnStreams::of(const std::shared_ptr<Gpu>& gpu) {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, stream] : streams_)
    if (known == gpu) return stream;
  streams_.reserve(streams_.size() + 1);
  return streams_.emplace_back(gpu, gpu->take_stream()).second;
}

StreamPoint::StreamPoint(const UserStream& stream, const char* operation,
                         std::shared_ptr<OwnStreams> streams)
    : gpu_(stream.gpu), operation_(operation), streams_(std::move(streams)) {
  const Gpu::Current current(*gpu_);
  event_ = gpu_->take_event();
  const DriverStatus status = gpu_->driver().record_event(event_, stream.handle);
  if (status == DriverStatus::success) return;
  gpu_->give_back(event_);
  gpu_->check(status, operation, "cuEventRecord");
}

StreamPoint::~StreamPoint() {
  if (!gpu_->forked()) gpu_->give_back(event_);
}

std::optional<Status> StreamPoint::poll() const noexcept {
  const ScopedRelaxation relaxed(gpu_->driver());
  const DriverStatus status = gpu_->driver().query_event(event_);
  if (status == DriverStatus::not_ready) return std::nullopt;
  return gpu_->outcome(status, operation_, "cuEventQuery");
}

StreamHandle StreamPoint::hold(const std::shared_ptr<Gpu>& gpu, const char* operation) const {
  const StreamHandle stream = streams_->of(gpu);
  gpu->check(gpu->driver().wait_event(stream, event_, 0), operation, "cuStreamWaitEvent");
  return stream;
}

}  // namespace weft::p2p::cuda
