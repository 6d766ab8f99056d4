#include "p2p/transport/cuda/pinned_chunks.hpp"

#include <fmt/format.h>

#include <utility>

#include "p2p/transport/cuda/api/load.hpp"

namespace weft::p2p::cuda {

Pinning PinnedChunks::pin_peers(const std::shared_ptr<Gpu>& gpu,
                                const std::shared_ptr<const os::Mapping>& mapping,
                                const std::function<bool()>& stream_waits) {
  const std::lock_guard lock(mutex_);
  const auto known = peers_.find(mapping.get());
  if (known != peers_.end()) return known->second.pin ? Pinning::pinned : Pinning::refused;
  HostPin pin = HostPin::find(mapping->data());
  if (!pin) {
    if (stream_waits()) return Pinning::not_now;
    DriverStatus why{};
    pin = HostPin::make(gpu, mapping->data(), mapping->bytes(), mapping->is_writable(), why);
  }
  const bool is_pinned(pin);
  peers_.emplace(mapping.get(), PeersPin{mapping, std::move(pin)});
  return is_pinned ? Pinning::pinned : Pinning::refused;
}

void PinnedChunks::pin(const std::shared_ptr<Gpu>& gpu, const std::shared_ptr<Arena>& arena,
                       std::uint32_t chunk, const std::function<bool()>& stream_waits) {
  const std::lock_guard lock(mutex_);
  if (pins_.contains(chunk)) return;
  std::byte* const data = arena->chunk_data(chunk);
  HostPin pin = HostPin::find(data);
  DriverStatus why = DriverStatus::success;
  if (!pin) {
    // That may wait for all streams. The copy keeps its caller waiting instead, for this once.
    if (stream_waits()) return;
    pin = HostPin::make(gpu, data, arena->chunk_bytes(chunk), true, why);
  }
  pins_.emplace(chunk, Pin{arena, std::move(pin)});
  if (why != DriverStatus::success && refusal_.empty())
    refusal_ = fmt::format("GPU {}: cuMemHostRegister failed: {}", gpu->ordinal(),
                           error_text(gpu->driver(), why));
}

std::string PinnedChunks::take_refusal() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refusal_, {});
}

}  // namespace weft::p2p::cuda
