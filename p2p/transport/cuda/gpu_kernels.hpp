// The kernels as one GPU has them.
#pragma once

#include <map>
#include <string>

#include "p2p/transport/cuda/api/driver.hpp"

namespace weft::p2p::cuda {

class Gpu;

/// Loaded when made, which may wait for all streams: not while one waits for the processor.
/// Thread-safe.
class GpuKernels {
 public:
  /// Requires a Gpu::Current.
  explicit GpuKernels(const Gpu& gpu);
  GpuKernels(const GpuKernels&) = delete;
  GpuKernels& operator=(const GpuKernels&) = delete;
  /// Requires a Gpu::Current.
  ~GpuKernels();

  /// Why there are none; empty: there are.
  const std::string& refusal() const noexcept { return refusal_; }
  /// The kernel of that name; null: there is none.
  Function find(const std::string& name) const noexcept;

 private:
  const Driver& driver_;
  Module module_ = nullptr;
  std::string refusal_;
  std::map<std::string, Function> kernels_;
};

}  // namespace weft::p2p::cuda
