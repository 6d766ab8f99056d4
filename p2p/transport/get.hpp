// Reading a peer's memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/stats/layout.hpp"
#include "p2p/transport/put_work.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// One piece of a get.
struct GetWork {
  std::byte* to = nullptr;  ///< memory that LocalRank::reachable() knows
  RemoteMemory from;
  std::size_t bytes = 0;
};

struct Get;

/// Moves the gets that a channel started.
class GetEngine {
 public:
  virtual ~GetEngine() = default;
  virtual std::optional<Status> poll_get(Get& get) noexcept = 0;
  virtual bool cancel_get(Get& get) noexcept = 0;
  virtual void abort_get(Get& get) noexcept { (void)get; }
};

/// A get, under way from Channel::get() until it has ended or was cancelled. Until then the object,
/// its pieces and their memory stay where they are, and its channel lives. It may be started again
/// afterwards.
struct Get {
  std::span<const GetWork> pieces;
  /// Some of them go to a GPU's memory (Channel::reaches_gpu): what was read is flushed before
  /// there is an outcome, and that is counted here.
  stats::Counter* gpu_flushes = nullptr;

  /// The outcome: ok once all bytes are here; nullopt until then. Asking makes progress, one thread
  /// at a time. When there is an outcome, this rank's sleepers are woken; asked again, it is the
  /// same.
  std::optional<Status> poll() noexcept {
    return engine == nullptr ? std::optional<Status>(end) : engine->poll_get(*this);
  }
  /// The caller waits no more. True: from now on no byte of it is written here. False: a NIC may
  /// still write: object, pieces and memory stay lent until poll() has an outcome.
  bool cancel() noexcept { return engine == nullptr || engine->cancel_get(*this); }
  /// Fails the path of a get that could not be cancelled, because its memory must be freed. Returns
  /// when the NIC no longer writes there, or after a short bounded wait.
  void abort() noexcept {
    if (engine != nullptr) engine->abort_get(*this);
  }

  // The channel's.
  GetEngine* engine = nullptr;  ///< null: it ended within Channel::get()
  std::size_t piece = 0;        ///< the next
  std::uint64_t done = 0;       ///< bytes of it
  std::uint64_t number = 0;     ///< the channel's name for it, or its last request
  std::uint32_t left = 0;       ///< requests that have not ended; or the queue pair that they go by
  bool asked = false;           ///< all was asked for
  bool whole = true;            ///< the peer still had all of the memory
  std::atomic<bool> is_over{false};
  Status end;
  Clock::time_point since;
  std::shared_ptr<void> kept;
};

}  // namespace weft::p2p
