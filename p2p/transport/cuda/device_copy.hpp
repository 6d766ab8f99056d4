// A copy between a GPU and host memory that goes on by itself.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::cuda {

/// A copy on one of weft's streams, with all that it needs until it has ended.
struct CopyUnderWay {
  /// Takes an event beforehand: once a copy is under way, nothing but the GPU may fail. Requires a
  /// Gpu::Current. Throws Error.
  CopyUnderWay(const char* asked_by, std::shared_ptr<Gpu> on)
      : operation(asked_by), gpu(std::move(on)), event(gpu->take_event()) {}
  CopyUnderWay(const CopyUnderWay&) = delete;
  CopyUnderWay& operator=(const CopyUnderWay&) = delete;
  ~CopyUnderWay() { return_event(); }

  void return_event() noexcept {
    if (!gpu->forked()) {
      if (event != nullptr) gpu->give_back(event);
      for (const Event chunk : chunks) gpu->give_back(chunk);
    }
    event = nullptr;
    chunks.clear();
  }

  /// How far the GPU is: not_ready while it works.
  DriverStatus query() const noexcept {
    return has_no_mark ? gpu->driver().query_stream(stream) : gpu->driver().query_event(event);
  }

  const char* operation;  ///< for errors
  std::shared_ptr<Gpu> gpu;
  Event event;                           ///< recorded behind it
  std::vector<Event> chunks{};           ///< behind each chunk of it but the last
  std::size_t there = 0;                 ///< chunks that have ended
  StreamHandle stream = nullptr;         ///< that it is on
  bool has_no_mark = false;              ///< the event could not be recorded
  std::vector<Tensor> tensors{};         ///< its ends
  OwnedBlock block{};                    ///< its host memory, or
  std::shared_ptr<const void> memory{};  ///< what keeps that
  std::shared_ptr<const void> pinned_by{};
};

/// Owns a copy that has begun. If it goes first, all that the copy needs stays until its end,
/// beyond the world if need be. Thread-safety: one thread at a time.
class DeviceCopy {
 public:
  DeviceCopy() noexcept = default;
  explicit DeviceCopy(std::unique_ptr<CopyUnderWay> copy) noexcept : copy_(std::move(copy)) {}
  DeviceCopy(DeviceCopy&& other) noexcept
      : copy_(std::move(other.copy_)), outcome_(std::exchange(other.outcome_, std::nullopt)) {}
  DeviceCopy& operator=(DeviceCopy&& other) noexcept {
    if (this == &other) return *this;
    leave();
    copy_ = std::move(other.copy_);
    outcome_ = std::exchange(other.outcome_, std::nullopt);
    return *this;
  }
  ~DeviceCopy() { leave(); }

  /// How it ended; nullopt while it is under way. Requires that it has begun.
  std::optional<Status> poll() noexcept;
  /// The same for a copy in chunks, and how many of them have ended.
  std::optional<Status> poll_chunks(std::size_t& there) noexcept;
  /// Work that is put on that stream later begins once the copy has ended. Requires a Gpu::Current,
  /// and that poll() had no outcome.
  Status hold_up(StreamHandle stream) const noexcept;
  /// The host memory of a copy that has ended.
  OwnedBlock take_block() noexcept { return std::move(copy_->block); }

 private:
  void leave() noexcept;

  std::unique_ptr<CopyUnderWay> copy_;
  std::optional<Status> outcome_;
};

/// Work that has begun, and how that went.
struct Begun {
  std::optional<DeviceCopy> work{};  ///< nullopt: nothing has begun
  Status status{};                   ///< of the first part that did not begin, or of its event
};

/// Records the event behind work on the stream that its parts were put on. `status`: of the last
/// part, which `function` gave; if that failed, the `begun` parts before it go on.
Begun record_work(std::unique_ptr<CopyUnderWay> work, StreamHandle stream, DriverStatus status,
                  std::size_t begun, const char* function) noexcept;

/// Records the event of a copy on the stream that its parts were put on. `status`: of the last
/// part, which `function` gave; if that failed, the `begun` parts before it go on, kept, and its
/// error is thrown.
DeviceCopy begun_copy(std::unique_ptr<CopyUnderWay> copy, StreamHandle stream, DriverStatus status,
                      std::size_t begun = 0, const char* function = "cuMemcpyAsync");

/// Waits for the copy of a page that proves a path, some seconds at most, and returns its host
/// memory. Throws Error.
OwnedBlock finish_page(const char* operation, DeviceCopy copy);

/// Lets go of those copies whose owners went first and that have ended, and of the handles of
/// graphs that are gone. Returns whether copies are left. Any thread.
bool reap_late_copies();

}  // namespace weft::p2p::cuda
