// An owned memory mapping.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>

#include "base/os/fd.hpp"

namespace weft::os {

/// Owns one mapping or none, and unmaps it. Move-only; the memory does not move. Shared memory is
/// not mapped in forks of the process: touching it there is a fault, and destroying the mapping
/// does nothing.
class Mapping {
 public:
  Mapping() noexcept = default;
  /// Takes ownership of memory that mmap returned.
  Mapping(void* data, std::size_t bytes) noexcept
      : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        only_in_(other.only_in_),
        is_writable_(other.is_writable_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    Mapping(std::move(other)).swap(*this);
    return *this;
  }
  ~Mapping();

  /// Maps the first `bytes` of a file for reading and writing, shared with all others that map it.
  /// The file may be closed afterwards. Throws Error(system, exhausted).
  static Mapping shared(const Fd& file, std::size_t bytes);
  /// The same for reading only: a store is a fault.
  static Mapping readable(const Fd& file, std::size_t bytes);
  /// Maps zeroed memory private to this process. Throws Error(system, exhausted).
  static Mapping anonymous(std::size_t bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// False: a store is a fault.
  bool is_writable() const noexcept { return is_writable_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  void swap(Mapping& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(only_in_, other.only_in_);
    std::swap(is_writable_, other.is_writable_);
  }

 private:
  static Mapping of_file(const Fd& file, std::size_t bytes, int protection);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  pid_t only_in_ = 0;  ///< the process in which it is mapped; 0: in its forks too
  bool is_writable_ = true;
};

}  // namespace weft::os
