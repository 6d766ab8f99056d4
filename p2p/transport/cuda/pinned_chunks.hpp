// Host memory that the driver has pinned, so that copies from and to it go on by themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/os/mapping.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "p2p/transport/cuda/host_pin.hpp"

namespace weft::p2p::cuda {

enum class Pinning : std::uint8_t {
  pinned,
  refused,  ///< by the driver
  not_now   ///< a stream waits, and pinning may wait for that
};

/// Chunks of a rank's host arenas, each pinned for all GPUs when a copy first uses it, until this
/// object goes. Thread-safe.
class PinnedChunks : public std::enable_shared_from_this<PinnedChunks> {
 public:
  PinnedChunks() = default;
  PinnedChunks(const PinnedChunks&) = delete;
  PinnedChunks& operator=(const PinnedChunks&) = delete;
  ~PinnedChunks() = default;

  /// Pins a chunk of the arena. Where the driver refuses that, copies work all the same, but may
  /// make their caller wait. `stream_waits`: on any GPU, which is asked where that counts. Requires
  /// a Gpu::Current.
  void pin(const std::shared_ptr<Gpu>& gpu, const std::shared_ptr<Arena>& arena,
           std::uint32_t chunk, const std::function<bool()>& stream_waits);
  /// The same for a mapping of a peer's memory, which GPUs only read.
  Pinning pin_peers(const std::shared_ptr<Gpu>& gpu,
                    const std::shared_ptr<const os::Mapping>& mapping,
                    const std::function<bool()>& stream_waits);
  /// Whether that chunk is pinned, or the driver has refused that; nullopt: it was not asked yet.
  std::optional<bool> is_pinned(std::uint32_t chunk) {
    const std::lock_guard lock(mutex_);
    const auto found = pins_.find(chunk);
    if (found == pins_.end()) return std::nullopt;
    return static_cast<bool>(found->second.pin);
  }
  /// Why some chunk is not pinned; empty: there is none, or that was told before.
  std::string take_refusal();

 private:
  // The memory goes after its pin, which is empty where the driver has refused it.
  struct Pin {
    std::shared_ptr<Arena> arena;
    HostPin pin;
  };
  struct PeersPin {
    std::shared_ptr<const os::Mapping> mapping;
    HostPin pin;
  };

  std::mutex mutex_;
  std::map<const os::Mapping*, PeersPin> peers_;
  std::map<std::uint32_t, Pin> pins_;  ///< by chunk
  std::string refusal_;
};

}  // namespace weft::p2p::cuda
