// A stretch of mapped memory that is unmapped once.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>

#include "base/os/fd.hpp"

namespace weft::os {

/// Owns one mapping, or none. Move-only; the memory does not move with it. Shared memory is not
/// there in forks of the process: touching it is a fault, letting the mapping go does nothing.
class Mapping {
 public:
  Mapping() noexcept = default;
  /// Takes over what mmap returned.
  Mapping(void* data, std::size_t bytes) noexcept
      : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        only_in_(other.only_in_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    Mapping(std::move(other)).swap(*this);
    return *this;
  }
  ~Mapping();

  /// The first `bytes` of a file, readable and writable, shared with whoever else maps it. The file
  /// may be closed afterwards. Throws Error(system).
  static Mapping shared(const Fd& file, std::size_t bytes);
  /// The same for reading only: a store to it is a fault.
  static Mapping readable(const Fd& file, std::size_t bytes);
  /// Zeroed memory of this process alone. Throws Error(system).
  static Mapping anonymous(std::size_t bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  void swap(Mapping& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(only_in_, other.only_in_);
  }

 private:
  static Mapping of_file(const Fd& file, std::size_t bytes, int protection);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  pid_t only_in_ = 0;  ///< the process that has it; 0: its forks have it too
};

}  // namespace weft::os
