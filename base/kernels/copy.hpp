// Copies of whole tensors, through the cache or past it.
#pragma once

#include <cstddef>

namespace weft::kernels {

/// Copies by ordinary stores, which leave `to` in the cache. The regions must not overlap.
void copy_cached(void* to, const void* from, std::size_t bytes) noexcept;

/// Copies by non-temporal stores, which bypass the cache and fetch no line to be overwritten.
/// Fenced: a later release store suffices for another core. The regions must not overlap; any
/// alignment.
void copy_streamed(void* to, const void* from, std::size_t bytes) noexcept;

/// The size in bytes from which copy_streamed hands a tensor to another core sooner than
/// copy_cached, derived from this machine's caches.
std::size_t default_stream_bytes() noexcept;

/// Calls copy_streamed if `bytes` >= `stream_bytes`, else copy_cached.
inline void copy(void* to, const void* from, std::size_t bytes, std::size_t stream_bytes) noexcept {
  if (bytes >= stream_bytes)
    copy_streamed(to, from, bytes);
  else
    copy_cached(to, from, bytes);
}

/// The vector instruction set that run-time dispatch chose, e.g. "AVX2".
const char* vector_target() noexcept;

}  // namespace weft::kernels
