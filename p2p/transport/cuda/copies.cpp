// World::copy: what it checks, and how it waits.
#include <fmt/format.h>

#include <cstring>
#include <thread>
#include <utility>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr const char* kCopy = "copy";

DevicePointer address_of(const Tensor& tensor) {
  return reinterpret_cast<DevicePointer>(tensor.data());
}

[[noreturn]] void refuse_copy(std::string message, const char* hint) {
  throw_error(Code::bad_argument, kCopy, std::move(message), hint);
}

void check_ends(const Tensor& from, const Tensor& to) {
  if (from.dtype() != to.dtype() || !(from.shape() == to.shape()))
    throw_error(Code::mismatch, kCopy,
                fmt::format("the source is {} and the target {}", from.text(), to.text()),
                "both must have one dtype and shape");
  for (const auto& [which, tensor] : {std::pair{"source", &from}, std::pair{"target", &to}}) {
    if (tensor->bytes() == 0 && tensor->shape().elements() != 0)
      refuse_copy(fmt::format("the {} {} has no memory", which, tensor->text()),
                  "allocate it, or wrap or adopt memory");
    if (!tensor->dense())
      refuse_copy(fmt::format("the {} {} has strides", which, tensor->text()),
                  "copy dense tensors");
  }
}

/// Memory that is not weft's own may be what it is not said to be: this asks the driver.
void check_address(const Gpu& gpu, const char* which, const Tensor& tensor) {
  if (tensor.arena() != nullptr) return;
  const Driver& driver = gpu.driver();
  const DevicePointer at = address_of(tensor);
  unsigned kind = 0;
  int ordinal = -1;
  const bool is_gpu =
      driver.pointer_attribute(&kind, PointerAttribute::memory_kind, at) == DriverStatus::success &&
      kind == static_cast<unsigned>(MemoryKind::device) &&
      driver.pointer_attribute(&ordinal, PointerAttribute::device_ordinal, at) ==
          DriverStatus::success;
  const std::string place = fmt::format("the {} {} at {:#x}", which, tensor.text(), at);
  if (tensor.memory().is_host()) {
    if (is_gpu)
      refuse_copy(fmt::format("{} lies on GPU {}, and was given as host memory", place, ordinal),
                  "wrap it with Memory::gpu(n)");
    return;
  }
  if (!is_gpu)
    refuse_copy(fmt::format("{} is no memory of {}", place, tensor.memory().text()),
                "it was freed, is host memory, or another process has it");
  if (ordinal != tensor.memory().ordinal())
    refuse_copy(fmt::format("{} lies on GPU {}, not on {}", place, ordinal, tensor.memory().text()),
                "wrap it with the GPU that it lies on");
  DevicePointer base = 0;
  std::size_t bytes = 0;
  if (driver.address_range(&base, &bytes, at) == DriverStatus::success &&
      tensor.bytes() > base + bytes - at)
    refuse_copy(fmt::format("{} ends behind its allocation, which has {} bytes from there on",
                            place, base + bytes - at),
                "wrap what was allocated");
}

/// The number of the GPU that a stream is of.
int gpu_of_stream(const Driver& driver, void* handle) {
  Context context = nullptr;
  Device device = -1;
  if (driver.stream_context(static_cast<StreamHandle>(handle), &context) != DriverStatus::success ||
      driver.push_context(context) != DriverStatus::success)
    refuse_copy(fmt::format("there is no stream {}", fmt::ptr(handle)),
                "give a stream that this process has created and not destroyed");
  const DriverStatus status = driver.context_device(&device);
  (void)driver.pop_context(&context);
  return status == DriverStatus::success ? device : -1;
}

/// Questions to events would otherwise spoil a graph that another thread captures.
class ScopedRelaxation {
 public:
  explicit ScopedRelaxation(const Driver& driver) : driver_(driver) {
    (void)driver_.exchange_capture_mode(&mode_);
  }
  ScopedRelaxation(const ScopedRelaxation&) = delete;
  ScopedRelaxation& operator=(const ScopedRelaxation&) = delete;
  ~ScopedRelaxation() { (void)driver_.exchange_capture_mode(&mode_); }

 private:
  const Driver& driver_;
  CaptureMode mode_ = CaptureMode::relaxed;
};

/// Yields at first, then sleeps for a short time.
void pause(int round) {
  constexpr int kYields = 200;
  constexpr std::chrono::microseconds kSleep{50};
  if (round < kYields)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kSleep);
}

/// A copy that outlived its deadline, with what must live until it has ended: perhaps after its
/// world, so these belong to none. Thread-safe.
class LateCopies {
 public:
  struct Late {
    std::shared_ptr<Gpu> gpu;
    Event event;
    Tensor from, to;
  };

  void add(Late late) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(late));
  }
  /// Lets go of those that have ended.
  void reap() {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const Late& late) {
      const ScopedRelaxation relaxed(late.gpu->driver());
      if (late.gpu->driver().query_event(late.event) == DriverStatus::not_ready) return false;
      late.gpu->give_back(late.event);
      return true;
    });
  }

 private:
  std::mutex mutex_;
  std::vector<Late> all_;
};

LateCopies& late_copies() {
  static auto* const all = new LateCopies;
  return *all;
}

/// Waits, by the event, for all that is on the GPU's own stream.
void wait_for_copy(const std::shared_ptr<Gpu>& gpu, Event event, const Tensor& from,
                   const Tensor& to, Deadline deadline) {
  const Driver& driver = gpu->driver();
  const ScopedRelaxation relaxed(driver);
  DriverStatus status = driver.record_event(event, gpu->stream());
  for (int round = 0; status == DriverStatus::success; ++round) {
    status = driver.query_event(event);
    if (status != DriverStatus::not_ready) break;
    if (deadline.passed()) {
      late_copies().add({gpu, event, from, to});
      throw_error(
          Code::timeout, kCopy,
          fmt::format("{} has not copied {} within its time", gpu->memory().text(), from.text()),
          "keep the memory of both: the copy is still under way");
    }
    pause(round);
    status = DriverStatus::success;
  }
  gpu->give_back(event);
  gpu->check(status, kCopy, "cuEventQuery");
}

}  // namespace

std::shared_ptr<Gpu> Gpus::gpu_of_copy(const Tensor& from, const Tensor& to, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (from.memory().is_gpu() && to.memory().is_gpu() && !(from.memory() == to.memory()))
    refuse_copy(fmt::format("from {} to {}", from.memory().text(), to.memory().text()),
                "weft copies within one GPU so far: copy to host memory first");
  Memory memory = from.memory().is_gpu() ? from.memory() : to.memory();
  const bool has_handle = !stream.none() && stream.handle() != nullptr;
  if (!has_handle) return gpu(kCopy, memory.is_host() ? Memory::gpu() : memory);
  const int ordinal = gpu_of_stream(driver(kCopy), stream.handle());
  if (memory.is_host()) memory = Memory::gpu(ordinal);
  if (ordinal != memory.ordinal())
    refuse_copy(
        fmt::format("the stream is of GPU {}, and the tensors are on {}", ordinal, memory.text()),
        "give a stream of the tensors' GPU");
  return gpu(kCopy, memory);
}

void Gpus::copy(const Tensor& from, const Tensor& to, Stream stream, Deadline deadline) {
  check_ends(from, to);
  if (from.bytes() == 0) return;
  late_copies().reap();
  if (from.memory().is_host() && to.memory().is_host() && stream.none()) {
    std::memmove(to.data(), from.data(), from.bytes());
    return;
  }
  const auto chosen = gpu_of_copy(from, to, stream);
  const Gpu::Current current(*chosen);
  check_address(*chosen, "source", from);
  check_address(*chosen, "target", to);
  const auto handle = stream.none() ? chosen->stream() : static_cast<StreamHandle>(stream.handle());
  // Taken before: once the copy is under way, nothing but the GPU may fail.
  const Event event = stream.none() ? chosen->take_event() : nullptr;
  const DriverStatus status =
      chosen->driver().copy(address_of(to), address_of(from), from.bytes(), handle);
  if (event != nullptr && status != DriverStatus::success) chosen->give_back(event);
  chosen->check(status, kCopy, "cuMemcpyAsync");
  if (event != nullptr) wait_for_copy(chosen, event, from, to, deadline);
}

}  // namespace weft::p2p::cuda
