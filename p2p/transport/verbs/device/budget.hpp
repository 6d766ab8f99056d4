// Limits on registered memory and queue pairs, and their causes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace weft::p2p::verbs {

/// Limits of the device.
struct DeviceLimits {
  std::uint64_t max_message = 0;  ///< bytes of one work request
  std::uint32_t max_depth = 0;    ///< work requests of one queue
  std::uint32_t max_pieces = 1;   ///< stretches of memory of one work request
  std::uint32_t max_queue_pairs = 0;
  std::uint32_t max_completions = 0;  ///< entries of a completion queue
  std::uint64_t max_regions = 0;
  std::uint64_t max_region_bytes = 0;
  std::uint8_t max_reads = 0;  ///< reads that a queue pair may have under way
};

/// How much memory this process may keep from being paged out, and does.
struct LockedMemory {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t limit = kUnlimited;  ///< RLIMIT_MEMLOCK, the soft one; bytes
  std::uint64_t pinned = 0;          ///< VmPin, which registration counts in
  std::uint64_t locked = 0;          ///< VmLck: mlock, which has a count of its own
  bool exempt = false;               ///< CAP_IPC_LOCK: the limit does not bind

  /// Memory that can still be registered.
  std::uint64_t left() const noexcept {
    if (exempt || limit == kUnlimited) return kUnlimited;
    return pinned > limit ? 0 : limit - pinned;
  }
  /// "RLIMIT_MEMLOCK is 65536 bytes, of which 4096 are pinned; ..."
  std::string text() const;
};
LockedMemory locked_memory();

/// Reads /proc/self/status. `initial_namespace`: its capabilities count for the kernel's own
/// checks.
LockedMemory parse_locked_memory(const std::string& status, std::uint64_t limit,
                                 bool initial_namespace);

/// Resources that will be asked of a device.
struct RegistrationNeed {
  std::uint64_t bytes = 0;           ///< registered in all
  std::uint64_t largest_region = 0;  ///< bytes
  std::uint64_t regions = 0;
  std::uint64_t queue_pairs = 0;
  std::uint64_t queue_bytes = 0;  ///< what the queues' own memory may take
  std::uint64_t completions = 0;  ///< of one completion queue
};

/// The need of `peers` peers, each with `queue_pairs` queue pairs of `depth`. The rings of a device
/// differ; 128 bytes for a send and 16 for a receive are an ordinary NIC's.
RegistrationNeed need_of_peers(std::uint64_t peers, std::uint64_t queue_pairs, std::uint64_t depth);

struct Shortfall {
  std::string message;
  std::string hint;
};
/// Why the need can't be met, with the figures and what to do; nullopt when nothing is known
/// against it.
std::optional<Shortfall> shortfall(const RegistrationNeed& need, const DeviceLimits& device,
                                   const LockedMemory& memory);

/// How to raise RLIMIT_MEMLOCK.
extern const char* const kRaiseLockedMemory;

}  // namespace weft::p2p::verbs
