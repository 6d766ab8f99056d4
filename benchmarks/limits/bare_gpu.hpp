// Copies of a GPU by bare calls of its driver: the limit of tensors on GPUs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "p2p/transport/cuda/api/driver.hpp"

namespace weft::bench {

/// Why this process can use no GPU; nullopt: it can.
std::optional<std::string> no_gpu();

/// One GPU, whose context is current for this thread meanwhile. Calls that the driver refuses throw
/// std::runtime_error with its words. Not thread-safe: the thread that made it calls it.
class BareGpu {
 public:
  using Address = p2p::cuda::DevicePointer;

  explicit BareGpu(int ordinal);
  BareGpu(const BareGpu&) = delete;
  BareGpu& operator=(const BareGpu&) = delete;
  ~BareGpu();

  /// "NVIDIA H100 80GB HBM3"
  const std::string& name() const noexcept { return name_; }
  /// Memory on the GPU (cuMemAlloc), and pinned memory of the host; all of it goes with this.
  Address allocate(std::size_t bytes);
  Address pin(std::size_t bytes);
  /// Memory that allocate() returned, for another process to open.
  p2p::cuda::IpcHandle share(Address memory);
  Address open(const p2p::cuda::IpcHandle& handle);
  /// cuMemcpyAsync and an event, for which this thread asks until it has come.
  void copy(Address to, Address from, std::size_t bytes);

 private:
  void check(p2p::cuda::DriverStatus status, const char* function) const;

  const p2p::cuda::Driver& driver_;
  const int ordinal_;
  std::string name_;
  p2p::cuda::Context context_ = nullptr;
  p2p::cuda::StreamHandle stream_ = nullptr;
  p2p::cuda::Event event_ = nullptr;
  std::vector<Address> allocated_;
  std::vector<Address> opened_;
  std::vector<void*> pinned_;
};

}  // namespace weft::bench
