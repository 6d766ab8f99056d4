// CUDA's default stream of a rank's GPU, in programs that have no other.
#pragma once

#include "p2p/transport/cuda/api/load.hpp"
#include "tests/cuda/driver/control.hpp"
#include "weft/device.hpp"

namespace weft::tests {

class DefaultStream {
 public:
  explicit DefaultStream(Memory gpu) : driver_(**p2p::cuda::load_driver()), gpu_(gpu.ordinal()) {}

  static Stream get() { return Stream::cuda(nullptr); }
  /// Waits as an application does, which may. False: the driver fails.
  bool synchronize() const {
    stand_in::Control* const control = stand_in::control();
    if (control != nullptr) control->act_for_application(true);
    p2p::cuda::Context context = nullptr;
    const auto ok = p2p::cuda::DriverStatus::success;
    bool good = driver_.retain_context(&context, gpu_) == ok && driver_.push_context(context) == ok;
    good = good && driver_.synchronize_stream(nullptr) == ok;
    good = good && driver_.pop_context(&context) == ok && driver_.release_context(gpu_) == ok;
    if (control != nullptr) control->act_for_application(false);
    return good;
  }

 private:
  const p2p::cuda::Driver& driver_;
  const int gpu_;
};

}  // namespace weft::tests
