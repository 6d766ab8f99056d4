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
///
/// The kernel takes the process by its number, which is another's once the process has ended and
/// was awaited. The pidfd tells: what was read counts only if the process had not ended by then;
/// nothing is written once it has ended, and a write during which it ends is an error.
class CrossMemory {
 public:
  /// `pidfd` stands for the same process and must outlive this; -1 for this process itself.
  CrossMemory(pid_t process, int pidfd) noexcept : process_(process), pidfd_(pidfd) {}

  Status read(std::byte* to, std::uint64_t from, std::size_t bytes) const noexcept;
  Status write(std::uint64_t to, const std::byte* from, std::size_t bytes) const noexcept;
  /// The tensors' elements, in order, as one.
  Status write(std::uint64_t to, std::span<const Tensor> parts) const noexcept;

 private:
  Status require_alive(const char* call) const noexcept;

  pid_t process_;
  int pidfd_;
};

}  // namespace weft::p2p
