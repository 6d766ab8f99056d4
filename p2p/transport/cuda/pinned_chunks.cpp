#include "p2p/transport/cuda/pinned_chunks.hpp"

#include <fmt/format.h>

#include <utility>

#include "p2p/transport/cuda/api/load.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {

namespace {

void unpin(const Gpu& gpu, std::byte* data) noexcept {
  if (gpu.forked()) return;
  try {
    const Gpu::Current current(gpu);
    const ScopedRelaxation relaxed(gpu.driver());
    (void)gpu.driver().unregister_host(data);
  } catch (const Error&) {
    return;  // the GPU is lost, and its pins with it
  }
}

}  // namespace

PinnedChunks::~PinnedChunks() {
  for (const auto& [chunk, pin] : pins_)
    if (pin.data != nullptr) unpin(*pin.gpu, pin.data);
  for (const auto& [key, pin] : peers_)
    if (pin.is_pinned) unpin(*pin.gpu, pin.mapping->data());
}

bool PinnedChunks::pin_peers(const std::shared_ptr<Gpu>& gpu,
                             const std::shared_ptr<const os::Mapping>& mapping,
                             const std::function<bool()>& stream_waits) {
  const std::lock_guard lock(mutex_);
  if (const auto known = peers_.find(mapping.get()); known != peers_.end())
    return known->second.is_pinned;
  if (stream_waits()) return false;
  PeersPin& pin = peers_[mapping.get()] = {gpu, mapping, false};
  const ScopedRelaxation relaxed(gpu->driver());
  const DriverStatus status = gpu->driver().register_host(
      mapping->data(), mapping->bytes(), kHostRegisterPortable | kHostRegisterReadOnly);
  pin.is_pinned = status == DriverStatus::success;
  return pin.is_pinned;
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
