#include "topology/discover/acs.hpp"

#include <cstdint>

namespace weft::topology {
namespace {

constexpr std::size_t kFirstExtended = 0x100;
constexpr std::uint32_t kAcsCapability = 0x000d;
constexpr std::size_t kControl = 6;
constexpr std::uint32_t kRequestRedirect = 1U << 2;
constexpr std::uint32_t kCompletionRedirect = 1U << 3;

std::uint32_t word(const std::string& config, std::size_t at, std::size_t bytes) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(config[at + i])) << (8 * i);
  return value;
}

}  // namespace

std::optional<bool> acs_redirects(const std::string& config) noexcept {
  if (config.size() < kConfigBytes) return std::nullopt;
  // Each capability takes at least 4 bytes, so a chain that is longer goes in a circle.
  std::size_t steps = kConfigBytes / 4;
  for (std::size_t at = kFirstExtended; at >= kFirstExtended && at + 8 <= kConfigBytes && steps > 0;
       --steps) {
    const std::uint32_t head = word(config, at, 4);
    if ((head & 0xffff) == kAcsCapability)
      return (word(config, at + kControl, 2) & (kRequestRedirect | kCompletionRedirect)) != 0;
    at = head >> 20;
  }
  return false;
}

}  // namespace weft::topology
