// A queue pair of a port that is connected to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "p2p/transport/put_work.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {

/// Moves bytes between two registered ranges of this rank by its NIC. Calls wait, a few
/// microseconds by a NIC that works. Thread-safe.
class Loopback {
 public:
  /// `device` must outlive it. Throws Error: exhausted, system.
  explicit Loopback(Device& device);

  /// A range here, with the key by which this rank's work requests name it.
  struct Range {
    std::byte* data = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t local_key = 0;
  };
  /// Code::system: the NIC refuses, or has not answered in time.
  Status write(const Range& from, const RemoteMemory& to) noexcept;
  Status read(const Range& to, const RemoteMemory& from) noexcept;

 private:
  Status run(ibv_wr_opcode opcode, const Range& here, const RemoteMemory& there) noexcept;
  Status failure(const char* what, const char* why) const noexcept;

  Device& device_;
  std::mutex mutex_;
  bool is_broken_ = false;
  CompletionQueue queue_;
  QueuePairHandle pair_;
};

}  // namespace weft::p2p::verbs
