// Streams of the application's: which GPU they are of, and places on them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/transport/cuda/gpu.hpp"
#include "weft/device.hpp"
#include "weft/error.hpp"

namespace weft::p2p::cuda {

/// A stream that a call was given.
struct UserStream {
  std::shared_ptr<Gpu> gpu;
  StreamHandle handle = nullptr;
};

/// Whether threads are to wait where streams could: CUDA_LAUNCH_BLOCKING asks for that.
bool launches_block() noexcept;

/// The number of the GPU that a stream is of. Throws Error(bad_argument).
int gpu_of_stream(const Driver& driver, const char* operation, void* handle);

/// Streams of weft's own for the copies of one end, one for each GPU: what holds up one end's
/// copies, work of the application's, holds up no other's. Thread-safe.
class OwnStreams {
 public:
  OwnStreams() = default;
  OwnStreams(const OwnStreams&) = delete;
  OwnStreams& operator=(const OwnStreams&) = delete;
  ~OwnStreams();

  /// Requires a Gpu::Current. Throws Error.
  StreamHandle of(const std::shared_ptr<Gpu>& gpu);

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<Gpu>, StreamHandle>> streams_;
};

/// The place on a stream behind which an operation begins, or ends. One thread at a time.
class StreamPoint {
 public:
  /// Behind all that is on the stream now. `streams`: for copies that begin there; null: none do.
  /// Throws Error.
  StreamPoint(const UserStream& stream, const char* operation, std::shared_ptr<OwnStreams> streams);
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;
  ~StreamPoint();

  /// How what is before it ended; nullopt while it goes on.
  std::optional<Status> poll() const noexcept;
  /// A stream of weft's on that GPU, all of whose later work begins behind this place. Requires a
  /// Gpu::Current. Throws Error.
  StreamHandle hold(const std::shared_ptr<Gpu>& gpu, const char* operation) const;

 private:
  const std::shared_ptr<Gpu> gpu_;
  const char* const operation_;
  const std::shared_ptr<OwnStreams> streams_;
  Event event_ = nullptr;
};

}  // namespace weft::p2p::cuda
