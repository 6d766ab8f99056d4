// The limit for memory that is not shared: the kernel's copy between processes.
#pragma once

#include <cstddef>

#include "benchmarks/harness/stream.hpp"
#include "weft/tensor.hpp"

namespace weft::bench {

/// Copies its source into the receiver's memory (process_vm_writev), then raises a flag. The
/// partner is a KernelCopySeen. One tensor per hand-over. Throws std::runtime_error with the
/// kernel's error if the copy is not allowed.
class KernelCopyOut final : public StreamSender {
 public:
  KernelCopyOut(const SharedMemory& bare, Tensor source)
      : bare_(bare), source_(std::move(source)) {}
  std::byte* source(std::size_t) override { return source_.data(); }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  Tensor source_;
};

/// Announces its memory's address and waits for the flag.
class KernelCopySeen final : public StreamReceiver {
 public:
  KernelCopySeen(const SharedMemory& bare, Tensor into);
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  Tensor into_;
};

/// Announces its source's address and raises the flag. The partner is a KernelCopyIn.
class KernelCopyTold final : public StreamSender {
 public:
  KernelCopyTold(const SharedMemory& bare, Tensor source);
  std::byte* source(std::size_t) override { return source_.data(); }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  Tensor source_;
};

/// Waits for the flag and copies the sender's memory into its own (process_vm_readv). Throws as
/// KernelCopyOut does.
class KernelCopyIn final : public StreamReceiver {
 public:
  KernelCopyIn(const SharedMemory& bare, Tensor into) : bare_(bare), into_(std::move(into)) {}
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  Tensor into_;
};

}  // namespace weft::bench
