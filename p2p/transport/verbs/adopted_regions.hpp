// The user's own memory, as a NIC knows it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "p2p/memory/adopted_memory.hpp"
#include "p2p/transport/verbs/device/device.hpp"

namespace weft::p2p::verbs {

/// A registered chunk: an arena's, or a whole adopted region.
struct RegisteredChunk {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
};

/// How often memory was registered, and how much of it is.
struct RegionCounts {
  std::atomic<std::uint64_t> registrations{0};
  std::atomic<std::uint64_t> bytes{0};
};

/// Registers adopted regions by their number when they are first needed, and keeps them registered:
/// until their memory is given back if peers were told of them, otherwise as long as there is room.
/// A number is never used again, so what was registered under it can't be taken for other memory at
/// the same address. Thread-safe.
class AdoptedRegions {
 public:
  struct Limits {
    std::size_t regions = 1024;
    std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
  };

  AdoptedRegions(Device& device, std::shared_ptr<AdoptedMemory> memory, RegionCounts& counts,
                 Limits limits);

 private:
  struct Entry {
    Entry(MemoryRegion made, const AdoptedRegion& region, RegionCounts& counter);
    ~Entry();

    MemoryRegion region;
    RegisteredChunk chunk;
    RegionCounts& counts;
    bool told = false;           ///< to peers
    std::uint64_t last_use = 0;  ///< the higher the later
  };

 public:
  /// While it lives, the region stays registered: for one operation. Goes before its Regions.
  class Lease {
   public:
    Lease() = default;
    /// Requires a lease that was given.
    const RegisteredChunk& chunk() const noexcept { return entry_->chunk; }

   private:
    friend class AdoptedRegions;
    explicit Lease(std::shared_ptr<const Entry> entry) noexcept : entry_(std::move(entry)) {}

    std::shared_ptr<const Entry> entry_;
  };

  // Throw Error(exhausted) or Error(system) as Device::register_memory, Error(bad_argument) where
  // the region has been given back.
  /// To tell peers: it stays registered until it is given back.
  RegisteredChunk for_peers(std::uint32_t chunk);
  Lease lend(std::uint32_t chunk);

  /// Leases that are out keep their region registered.
  void forget(std::uint32_t chunk) noexcept;

 private:
  std::shared_ptr<Entry> entry_of(std::uint32_t chunk);
  MemoryRegion make(const AdoptedRegion& region);
  void make_room(std::uint64_t bytes);
  /// The region that was not used for the longest time. False: each is in use, or told of.
  bool drop_one();

  Device& device_;
  const std::shared_ptr<AdoptedMemory> memory_;
  RegionCounts& counts_;
  const Limits limits_;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::shared_ptr<Entry>> entries_;
  std::uint64_t bytes_ = 0;  ///< of the entries
  std::uint64_t uses_ = 0;
  /// Goes first.
  AdoptedMemory::Listener released_;
};

}  // namespace weft::p2p::verbs
