// A GPU as this program uses it: one stream, and the kernels of kernels.hpp. By the CUDA driver,
// which is loaded at run time, so that the program also starts where there is none. A trainer that
// is built by nvcc has the CUDA runtime for all of this.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>

#include "kernels.hpp"
#include "weft/tensor.hpp"

namespace images {

/// A tensor as kernels take it, in whichever memory.
inline kernels::Floats floats(const weft::Tensor& tensor) {
  return {reinterpret_cast<float*>(tensor.data()), tensor.shape().elements()};
}

/// The driver's answer to a call, or what the program lacks. One line.
class GpuError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Its context is the thread's current one as long as it lives. One thread.
class Gpu {
 public:
  /// The GPU that CUDA counts as number `ordinal`. Throws GpuError.
  explicit Gpu(int ordinal);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  /// For weft's calls, which then go in order with the kernels.
  weft::Stream stream() const noexcept;
  /// Begins to compute, behind all that is on the stream. Throws GpuError.
  template <typename Kernel>
  void run(const Kernel& kernel) {
    launch(Kernel::kName, kernel.threads(), &kernel);
  }
  /// Waits for all of it. Throws GpuError.
  void wait();
  /// Makes a graph of what `work` puts on the stream, of which nothing happens yet. Throws GpuError
  /// and what `work` throws.
  void capture(const std::function<void()>& work);
  /// Whether there is one.
  bool has_graph() const noexcept;
  /// Begins to do all that is in the graph, behind what is on the stream. Throws GpuError.
  void launch_graph();

 private:
  struct Driver;
  void launch(const char* name, long threads, const void* arguments);

  std::unique_ptr<Driver> driver_;
};

}  // namespace images
