// Host memory that the driver has pinned, once for all ranks of the process.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "p2p/transport/cuda/gpu.hpp"

namespace weft::p2p::cuda {

/// A share of a registration with the driver, or none. The driver takes each range once, so ranks
/// of one process that use the same mapping share one; it ends with the last share. Owners keep the
/// memory longer than their share. Move-only; all are thread-safe together.
class HostPin {
 public:
  HostPin() noexcept = default;
  HostPin(HostPin&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  HostPin& operator=(HostPin&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~HostPin();

  /// A share of the registration that begins at that address, or none.
  static HostPin find(std::byte* data);
  /// The same, or a new one, or none: then `why` is the driver's reason. `is_writable`: GPUs may
  /// write the memory too. Requires a Gpu::Current.
  static HostPin make(const std::shared_ptr<Gpu>& gpu, std::byte* data, std::size_t bytes,
                      bool is_writable, DriverStatus& why);

  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  explicit HostPin(std::byte* data) noexcept : data_(data) {}

  std::byte* data_ = nullptr;
};

}  // namespace weft::p2p::cuda
