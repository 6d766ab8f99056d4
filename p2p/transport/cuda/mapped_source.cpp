#include "p2p/transport/cuda/mapped_source.hpp"

#include <utility>

#include "p2p/transport/cuda/check_address.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {

Pinning MappedSource::pin(const char* operation, Memory memory) {
  if (gpu_ == nullptr || gpu_->ordinal() != memory.ordinal()) {
    gpu_ = nullptr;
    for (auto& gpu : gpus_.in_use(operation))
      if (gpu->ordinal() == memory.ordinal()) gpu_ = std::move(gpu);
    if (gpu_ == nullptr) return Pinning::refused;
  }
  if (own_) {
    gpus_.pin(gpu_, own_, chunk_);
    const auto is_pinned = gpus_.pins().is_pinned(chunk_);
    if (!is_pinned) return Pinning::not_now;
    return *is_pinned ? Pinning::pinned : Pinning::refused;
  }
  const Gpu::Current current(*gpu_);
  return gpus_.pins().pin_peers(gpu_, mapping_, [this] { return gpus_.any_stream_waits(); });
}

DeviceCopy MappedSource::copy(const char* operation, const std::byte* from,
                              const Tensor& to) const {
  reap_late_copies();
  const Gpu::Current current(*gpu_);
  const ScopedRelaxation relaxed(gpu_->driver());
  auto copy = std::make_unique<CopyUnderWay>(operation, gpu_);
  copy->pinned_by = gpus_.pins().shared_from_this();
  copy->tensors = {to};
  copy->memory = mapping_;
  const DriverStatus status = gpu_->driver().copy(
      address_of(to), reinterpret_cast<DevicePointer>(from), to.bytes(), gpu_->stream());
  return begun_copy(std::move(copy), gpu_->stream(), status);
}

}  // namespace weft::p2p::cuda
