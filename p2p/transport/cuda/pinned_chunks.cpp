#include "p2p/transport/cuda/pinned_chunks.hpp"

#include <fmt/format.h>

#include <utility>

#include "p2p/transport/cuda/api/load.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {

PinnedChunks::~PinnedChunks() {
  for (const auto& [chunk, pin] : pins_) {
    if (pin.data == nullptr || pin.gpu->forked()) continue;
    try {
      const Gpu::Current current(*pin.gpu);
      const ScopedRelaxation relaxed(pin.gpu->driver());
      (void)pin.gpu->driver().unregister_host(pin.data);
    } catch (const Error&) {
      continue;  // the GPU is lost, and its pins with it
    }
  }
}

void PinnedChunks::pin(const std::shared_ptr<Gpu>& gpu, const std::shared_ptr<Arena>& arena,
                       std::uint32_t chunk, const std::function<bool()>& stream_waits) {
  const std::lock_guard lock(mutex_);
  if (pins_.contains(chunk)) return;
  // That may wait for all streams. The copy keeps its caller waiting instead, for this once.
  if (stream_waits()) return;
  Pin& pin = pins_[chunk] = {gpu, arena, nullptr};
  std::byte* const data = arena->chunk_data(chunk);
  const ScopedRelaxation relaxed(gpu->driver());
  const DriverStatus status =
      gpu->driver().register_host(data, arena->chunk_bytes(chunk), kHostRegisterPortable);
  if (status == DriverStatus::success) pin.data = data;
  if (status != DriverStatus::success && refusal_.empty())
    refusal_ = fmt::format("GPU {}: cuMemHostRegister failed: {}", gpu->ordinal(),
                           error_text(gpu->driver(), status));
}

std::string PinnedChunks::take_refusal() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refusal_, {});
}

}  // namespace weft::p2p::cuda
