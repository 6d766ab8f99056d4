#include "p2p/transport/cuda/pinned_mapping.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

struct PinnedByProcess {
  std::mutex mutex;
  std::map<std::byte*, int> handles;  ///< by where a mapping begins
};

PinnedByProcess& pinned() {
  static auto* const all = new PinnedByProcess;
  return *all;
}

}  // namespace

PinnedMapping::PinnedMapping(const char* operation, std::shared_ptr<Gpu> gpu,
                             std::shared_ptr<const void> memory, std::byte* data, std::size_t bytes)
    : gpu_(std::move(gpu)), memory_(std::move(memory)), data_(data) {
  const std::lock_guard lock(pinned().mutex);
  int& handles = pinned().handles[data_];
  if (handles == 0) {
    const Gpu::Current current(*gpu_);
    const ScopedRelaxation relaxed(gpu_->driver());
    gpu_->check(gpu_->driver().register_host(data, bytes, kHostRegisterPortable), operation,
                "cuMemHostRegister");
  }
  ++handles;
}

PinnedMapping::~PinnedMapping() {
  if (gpu_->forked()) return;
  const std::lock_guard lock(pinned().mutex);
  if (--pinned().handles[data_] != 0) return;
  pinned().handles.erase(data_);
  try {
    const Gpu::Current current(*gpu_);
    const ScopedRelaxation relaxed(gpu_->driver());
    (void)gpu_->driver().unregister_host(data_);
  } catch (const Error&) {
    return;  // the GPU is lost, and its pins with it
  }
}

}  // namespace weft::p2p::cuda
