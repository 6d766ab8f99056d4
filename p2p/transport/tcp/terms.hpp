// Terms that two ranks agree on before they open connections for data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace weft::p2p::tcp {

/// By the connector, from both ends. Where the two differ, what either asks for is done, by as many
/// rails as both have.
struct Terms {
  static constexpr std::uint32_t kType = 0x74637033;

  std::uint32_t type = kType;
  std::uint16_t rails = 1;
  std::uint8_t checksums = 0;
  std::uint8_t encrypts = 0;

  static std::optional<Terms> parse(std::span<const std::byte> message) noexcept {
    Terms terms;
    if (message.size() != sizeof terms) return std::nullopt;
    std::memcpy(&terms, message.data(), sizeof terms);
    if (terms.type != kType || terms.rails == 0) return std::nullopt;
    return terms;
  }
  Terms agreed(const Terms& theirs) const noexcept {
    return {.rails = std::min(rails, theirs.rails),
            .checksums = static_cast<std::uint8_t>(checksums != 0 || theirs.checksums != 0),
            .encrypts = static_cast<std::uint8_t>(encrypts != 0 || theirs.encrypts != 0)};
  }
};

}  // namespace weft::p2p::tcp
