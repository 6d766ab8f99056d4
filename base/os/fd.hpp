// An owned file descriptor.
#pragma once

#include <utility>

namespace weft::os {

/// Owns one descriptor or none (-1), and closes it. Move-only.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    Fd(std::move(other)).swap(*this);
    return *this;
  }
  ~Fd();

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Gives up ownership: the caller must close the descriptor.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void swap(Fd& other) noexcept { std::swap(fd_, other.fd_); }

 private:
  int fd_ = -1;
};

}  // namespace weft::os
