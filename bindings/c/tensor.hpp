// Handles of tensors, for all parts of the binding that make them.
#pragma once

#include "bindings/c/call.hpp"

namespace weft::c {

weft_tensor* new_tensor(Tensor tensor, weft_memory memory, bool read_only = false);

/// Throws Error(bad_argument) if `data` is NULL.
void check_data(const char* operation, const void* data);

/// A place of C (WEFT_PLACE_*, or a GPU's number). Throws Error(bad_argument).
Memory memory_in(const char* operation, int place);
/// The stream that a caller's pointer names.
inline Stream stream_in(void* const* stream) noexcept {
  return stream == nullptr ? Stream() : Stream::cuda(*stream);
}

/// The memory that a tensor of weft's lies in.
weft_memory memory_of(const weft_world& world, const Tensor& tensor) noexcept;

}  // namespace weft::c
