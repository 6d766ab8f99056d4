// The page by which a path to a GPU's memory is proven.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

namespace weft::p2p {

/// A random word, then each a step further.
inline constexpr std::size_t kGpuPage = 4096;
inline constexpr std::uint64_t kGpuPageStep = 0x9e3779b97f4a7c15;

/// The first word of a page that no memory holds by chance.
inline std::uint64_t make_nonce() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device() | 1U;
}

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
