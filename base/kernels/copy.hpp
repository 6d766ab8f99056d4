// Copies of whole tensors, with the cache in mind.
#pragma once

#include <cstddef>

namespace weft::kernels {

/// Ordinary stores: what is written stays in the cache. Regions must not overlap.
void copy_cached(void* to, const void* from, std::size_t bytes) noexcept;

/// Non-temporal stores: what is written goes past the cache and no line is fetched to be
/// overwritten. Fenced: a release store after it is enough for another core. Regions must not
/// overlap; any alignment.
void copy_streamed(void* to, const void* from, std::size_t bytes) noexcept;

/// The size from which copy_streamed hands a tensor to another core sooner, from the size of this
/// machine's caches.
std::size_t default_stream_bytes() noexcept;

/// copy_streamed from `stream_bytes` on, else copy_cached.
inline void copy(void* to, const void* from, std::size_t bytes, std::size_t stream_bytes) noexcept {
  if (bytes >= stream_bytes)
    copy_streamed(to, from, bytes);
  else
    copy_cached(to, from, bytes);
}

/// The vector instruction set that run-time dispatch chose, e.g. "AVX2".
const char* vector_target() noexcept;

}  // namespace weft::kernels
