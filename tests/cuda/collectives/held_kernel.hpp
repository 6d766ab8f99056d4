// A kernel that does not end before a test lets it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"
#include "tests/cuda/driver/control.hpp"

namespace weft::tests {

/// In the place of weft's kernel for sums of f32: writes sevens. On GPU 1 it works until it is set
/// free.
class HeldKernel {
 public:
  explicit HeldKernel(stand_in::Control& control) : control_(control) {
    control.add_twin("weft_reduce_f32_sum",
                     {.parameter_bytes = {sizeof(p2p::cuda::kernels::ReduceParameters)},
                      .run = [this](const stand_in::Launch& launch) { run(launch); }});
  }
  HeldKernel(const HeldKernel&) = delete;
  HeldKernel& operator=(const HeldKernel&) = delete;
  ~HeldKernel() { set_free(); }

  void set_free() {
    const std::lock_guard lock(mutex_);
    is_free_ = true;
    changed_.notify_all();
  }
  bool is_free() const {
    const std::lock_guard lock(mutex_);
    return is_free_;
  }
  int begun() const { return begun_; }
  int ended() const { return ended_; }

 private:
  void run(const stand_in::Launch& launch) {
    const auto parameters = launch.parameter<p2p::cuda::kernels::ReduceParameters>(0);
    ++begun_;
    if (launch.device == 1) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::seconds(15), [this] { return is_free_; });
    }
    for (std::uint32_t t = 0; t < parameters.target_count; ++t) {
      const auto at = reinterpret_cast<p2p::cuda::DevicePointer>(parameters.targets[t]);
      const std::size_t bytes = parameters.count * sizeof(float);
      auto* const to = reinterpret_cast<float*>(control_.reach(at, bytes, launch.device));
      if (to != nullptr) std::fill_n(to, parameters.count, 7.0F);
    }
    ++ended_;
  }

  stand_in::Control& control_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_free_ = false;
  std::atomic<int> begun_{0};
  std::atomic<int> ended_{0};
};

}  // namespace weft::tests
