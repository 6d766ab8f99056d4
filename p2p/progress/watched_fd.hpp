// A file descriptor that the progress thread watches.
#pragma once

#include <cstdint>
#include <utility>

#include "base/os/fd.hpp"
#include "p2p/progress/progress_thread.hpp"

namespace weft::p2p {

/// Owns a watched descriptor; stops watching before closing it. Move-only. Progress thread only.
class Watched {
 public:
  Watched() noexcept = default;
  /// Throws Error(system), with `fd` closed.
  Watched(ProgressThread& progress, os::Fd fd, std::uint32_t events,
          ProgressThread::Handler handler)
      : progress_(&progress), fd_(std::move(fd)) {
    progress.watch(fd_.get(), events, std::move(handler));
  }
  Watched(Watched&& other) noexcept : progress_(other.progress_), fd_(std::move(other.fd_)) {}
  Watched& operator=(Watched&& other) noexcept {
    Watched moved(std::move(other));
    std::swap(progress_, moved.progress_);
    fd_.swap(moved.fd_);
    return *this;
  }
  ~Watched() { (void)release(); }

  int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  void change(std::uint32_t events) noexcept { progress_->change(fd_.get(), events); }
  /// Stops watching and returns the descriptor.
  [[nodiscard]] os::Fd release() noexcept {
    if (fd_) progress_->forget(fd_.get());
    return std::move(fd_);
  }

 private:
  ProgressThread* progress_ = nullptr;
  os::Fd fd_;
};

}  // namespace weft::p2p
