// Tensors that are said to lie on a GPU, in memory that a processor or a system call can't touch.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <new>

#include "weft/tensor.hpp"

namespace weft::tests {

/// Memory of GPU 3, as far as weft knows. A call that reads or writes it ends with SIGSEGV.
class GpuMemory {
 public:
  GpuMemory() : at_(::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::bad_alloc();
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  ~GpuMemory() { ::munmap(at_, kBytes); }

  void* at() const { return at_; }
  Tensor tensor(const Shape& shape, DType dtype = DType::f32) const {
    return Tensor::wrap(at_, dtype, shape, Memory::gpu(3));
  }

 private:
  static constexpr std::size_t kBytes = 1 << 20;
  void* at_;
};

}  // namespace weft::tests
