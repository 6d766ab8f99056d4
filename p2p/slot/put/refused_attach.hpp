// An attach that was refused as a mismatch, for the owner's next wait.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "weft/error.hpp"

namespace weft::p2p {

/// The progress thread keeps one, the application's thread takes it.
class RefusedAttach {
 public:
  void keep(const Status& status) {
    {
      const std::lock_guard lock(mutex_);
      status_ = status;
    }
    kept_.store(true, std::memory_order_release);
  }
  bool is_kept() const noexcept { return kept_.load(std::memory_order_acquire); }
  Status take() noexcept {
    const std::lock_guard lock(mutex_);
    kept_.store(false, std::memory_order_release);
    return std::exchange(status_, {});
  }

 private:
  std::atomic<bool> kept_{false};
  std::mutex mutex_;
  Status status_;
};

}  // namespace weft::p2p
