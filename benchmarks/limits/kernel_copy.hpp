// Limit: memory of another process that is not shared, reached by the kernel's own copy.
#pragma once

#include <cstddef>

#include "benchmarks/harness/stream.hpp"
#include "weft/tensor.hpp"

namespace weft::bench {

/// Copies its source into the receiver's memory (process_vm_writev), then raises a flag. Its
/// partner is KernelCopySeen. One tensor by hand-over. Throws std::runtime_error with the kernel's
/// words when it does not allow that.
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

/// Tells where its memory lies, and sees the flag.
class KernelCopySeen final : public StreamReceiver {
 public:
  KernelCopySeen(const SharedMemory& bare, Tensor into);
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  Tensor into_;
};

/// Tells where its source lies, and raises the flag. Its partner is KernelCopyIn.
class KernelCopyTold final : public StreamSender {
 public:
  KernelCopyTold(const SharedMemory& bare, Tensor source);
  std::byte* source(std::size_t) override { return source_.data(); }
  void move(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  Tensor source_;
};

/// Sees the flag and copies the sender's memory into its own (process_vm_readv). Throws as
/// KernelCopyOut.
class KernelCopyIn final : public StreamReceiver {
 public:
  KernelCopyIn(const SharedMemory& bare, Tensor into) : bare_(bare), into_(std::move(into)) {}
  const std::byte* take(std::size_t i, std::uint64_t stamp) override;

 private:
  const SharedMemory& bare_;
  Tensor into_;
};

}  // namespace weft::bench
