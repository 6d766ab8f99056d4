// Terms that two ranks agree on before they open connections for data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "p2p/transport/address/shared_networks.hpp"

namespace weft::p2p::tcp {

/// By the connector, from both ends. Where the two differ, what either asks for is done, by as many
/// rails as both have.
struct Terms {
  static constexpr std::uint32_t kType = 0x74637034;

  std::uint32_t type = kType;
  std::uint16_t rails = 1;  ///< the most
  std::uint8_t checksums = 0;
  std::uint8_t encrypts = 0;
  std::uint8_t by_networks = 0;  ///< not more rails than both are on the same networks
  std::array<std::uint8_t, 3> reserved{};
  NetworkAddresses networks{};  ///< of what the rank's connector listens at

  static std::optional<Terms> parse(std::span<const std::byte> message) noexcept {
    Terms terms;
    if (message.size() != sizeof terms) return std::nullopt;
    std::memcpy(&terms, message.data(), sizeof terms);
    if (terms.type != kType || terms.rails == 0) return std::nullopt;
    return terms;
  }
  /// `shared`: the networks that both are on.
  Terms agreed(const Terms& theirs, std::size_t shared) const noexcept {
    Terms both{
        .rails = std::min(rails, theirs.rails),
        .checksums = static_cast<std::uint8_t>(checksums != 0 || theirs.checksums != 0),
        .encrypts = static_cast<std::uint8_t>(encrypts != 0 || theirs.encrypts != 0),
        .by_networks = static_cast<std::uint8_t>(by_networks != 0 || theirs.by_networks != 0)};
    if (both.by_networks != 0)
      both.rails = static_cast<std::uint16_t>(
          std::clamp<std::size_t>(shared, 1, static_cast<std::size_t>(both.rails)));
    return both;
  }
};

}  // namespace weft::p2p::tcp
