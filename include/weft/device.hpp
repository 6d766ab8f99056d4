// Memory of GPUs: where a tensor lies, and the streams that order a GPU's work. No type of CUDA is
// needed to use them.
#pragma once

#include <cstdint>
#include <string>

#include "weft/api.hpp"

namespace weft {

/// Where a tensor's elements lie: in host memory, or on one GPU. A value.
class WEFT_API Memory {
 public:
  /// Host memory.
  constexpr Memory() noexcept = default;
  static constexpr Memory host() noexcept { return {}; }
  /// This rank's GPU (WEFT_GPU): for World::allocate, and for the memory of specs and options. A
  /// tensor's memory names its GPU, so Tensor::wrap takes gpu(ordinal).
  static constexpr Memory gpu() noexcept { return Memory(kOwn); }
  /// The GPU with this number among those that the process sees, as CUDA counts them. Throws
  /// Error(bad_argument) below 0 and above 32767.
  static Memory gpu(int ordinal);

  constexpr bool is_host() const noexcept { return place_ == kHost; }
  constexpr bool is_gpu() const noexcept { return place_ != kHost; }
  /// True for gpu(): the rank's own, whichever it is.
  constexpr bool is_own_gpu() const noexcept { return place_ == kOwn; }
  /// The GPU's number; -1 for host memory and for the rank's own GPU.
  constexpr int ordinal() const noexcept { return place_ >= 0 ? place_ : -1; }
  /// "host memory", "GPU 2" or "this rank's GPU".
  std::string text() const;

  friend constexpr bool operator==(Memory a, Memory b) noexcept { return a.place_ == b.place_; }

 private:
  static constexpr std::int16_t kHost = -1;
  static constexpr std::int16_t kOwn = -2;
  explicit constexpr Memory(std::int16_t place) noexcept : place_(place) {}

  std::int16_t place_ = kHost;
};

/// A stream of a GPU, which orders work; the user's own. If default-constructed, no stream: a call
/// that takes it waits itself. A value.
class Stream {
 public:
  constexpr Stream() noexcept = default;
  /// A cudaStream_t or CUstream; null is CUDA's default stream. It stays the user's, who keeps it
  /// until its work is done.
  static constexpr Stream cuda(void* handle) noexcept { return Stream(handle); }

  /// True for a stream that was default-constructed.
  constexpr bool none() const noexcept { return none_; }
  /// The handle given to cuda().
  constexpr void* handle() const noexcept { return handle_; }

 private:
  explicit constexpr Stream(void* handle) noexcept : handle_(handle), none_(false) {}

  void* handle_ = nullptr;
  bool none_ = true;
};

}  // namespace weft
