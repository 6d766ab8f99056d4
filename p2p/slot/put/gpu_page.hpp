// The page by which a writer's GPU proves that it reaches the owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "p2p/slot/attach/slot_messages.hpp"

namespace weft::p2p {

/// Writes the page of that nonce to host memory.
inline void fill_page(std::byte* page, std::uint64_t nonce) noexcept {
  for (std::size_t at = 0; at < kGpuPage; at += sizeof nonce, nonce += kGpuPageStep)
    std::memcpy(page + at, &nonce, sizeof nonce);
}

/// Whether host memory has the whole page of that nonce.
inline bool holds_page(const std::byte* page, std::uint64_t nonce) noexcept {
  for (std::size_t at = 0; at < kGpuPage; at += sizeof nonce, nonce += kGpuPageStep)
    if (std::memcmp(page + at, &nonce, sizeof nonce) != 0) return false;
  return true;
}

}  // namespace weft::p2p
