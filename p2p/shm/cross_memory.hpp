// Copies between this process's memory and another's that is not shared, by the kernel.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// Linux's process_vm_readv and process_vm_writev. Whether they are allowed (Yama, capabilities,
/// seccomp) is found out by doing. Errors: peer_failed when the process is gone, unreachable when
/// the kernel does not allow it, closed when there is no such memory there any more.
class CrossMemory {
 public:
  explicit CrossMemory(pid_t process) noexcept : process_(process) {}

  Status read(std::byte* to, std::uint64_t from, std::size_t bytes) const noexcept;
  Status write(std::uint64_t to, const std::byte* from, std::size_t bytes) const noexcept;
  /// The tensors' elements, in order, as one.
  Status write(std::uint64_t to, std::span<const Tensor> parts) const noexcept;

 private:
  pid_t process_;
};

}  // namespace weft::p2p
