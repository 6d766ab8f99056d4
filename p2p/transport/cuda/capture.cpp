#include "p2p/transport/cuda/capture.hpp"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/api/load.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p::cuda {
namespace {

struct Kept {
  std::shared_ptr<KeptByGraph> what;
  Kept* next = nullptr;
};

/// The last one that a graph has let go of. A list without a lock: the driver's threads add to it.
std::atomic<Kept*> gone{nullptr};
/// The last one without handles.
std::atomic<KeptByGraph*> without_handles{nullptr};

template <typename Node>
void push(std::atomic<Node*>& list, Node* node) noexcept {
  node->next = list.load(std::memory_order_relaxed);
  while (!list.compare_exchange_weak(node->next, node, std::memory_order_acq_rel)) {
  }
}

void add_gone(void* user) noexcept { push(gone, static_cast<Kept*>(user)); }

}  // namespace

std::optional<Capture> capture_of(Gpus& gpus, const char* operation, Stream stream, Memory memory) {
  // CUDA captures no default stream.
  const auto loaded = load_driver();
  if (!loaded.ok() || stream.none() || stream.handle() == nullptr) return std::nullopt;
  const Driver& driver = **loaded;
  Capture capture;
  capture.stream.handle = static_cast<StreamHandle>(stream.handle());
  CaptureStatus status{};
  if (driver.capture_info(capture.stream.handle, &status, &capture.id, &capture.graph, nullptr,
                          nullptr) != DriverStatus::success ||
      status == CaptureStatus::none)
    return std::nullopt;
  if (status == CaptureStatus::invalidated)
    throw_error(Code::bad_argument, operation, "the stream's capture has failed before this call",
                "end that capture, and look at which call its error names");
  const int ordinal = gpu_of_stream(driver, operation, stream.handle());
  if (memory.is_gpu() && ordinal != memory.ordinal())
    throw_error(
        Code::bad_argument, operation,
        fmt::format("the stream is of GPU {}, and the tensor is on {}", ordinal, memory.text()),
        "give a stream of the tensor's GPU");
  (void)gpus.resolve(operation, Memory::gpu(ordinal));  // opens it
  for (const auto& gpu : gpus.in_use(operation))
    if (gpu->ordinal() == ordinal) capture.stream.gpu = gpu;
  return capture;
}

void keep_by_graph(const Capture& capture, const char* operation,
                   std::shared_ptr<KeptByGraph> what) {
  const Gpu& gpu = *capture.stream.gpu;
  auto kept = std::make_unique<Kept>();
  UserObject object = nullptr;
  gpu.check(gpu.driver().create_user_object(&object, kept.get(), &add_gone, 1, kNoDestructorSync),
            operation, "cuUserObjectCreate");
  Kept* const given = kept.release();  // add_gone() has it from now on
  const DriverStatus status =
      gpu.driver().retain_user_object(capture.graph, object, 1, kMoveUserObject);
  if (status != DriverStatus::success) {
    (void)gpu.driver().release_user_object(object, 1);
    gpu.check(status, operation, "cuGraphRetainUserObject");
  }
  given->what = std::move(what);
}

void reap_later(KeptByGraph* one) noexcept { push(without_handles, one); }

void take_from_graphs() noexcept {
  if (gone.load(std::memory_order_relaxed) == nullptr) return;
  Kept* next = gone.exchange(nullptr, std::memory_order_acq_rel);
  while (next != nullptr) {
    const std::unique_ptr<Kept> kept(next);
    next = kept->next;
  }
}

void reap_graphs() noexcept {
  take_from_graphs();
  if (without_handles.load(std::memory_order_relaxed) == nullptr) return;
  KeptByGraph* next = without_handles.exchange(nullptr, std::memory_order_acq_rel);
  while (next != nullptr) {
    std::unique_ptr<KeptByGraph> one(next);
    next = one->next;
    if (!one->is_at_home() && StreamWords::any_waits()) reap_later(one.release());
  }
}

}  // namespace weft::p2p::cuda
