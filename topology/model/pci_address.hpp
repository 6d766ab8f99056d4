// The address of a PCI function, including its domain.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::topology {

/// A value type, ordered by domain, bus, device and function. Ties are resolved in this order
/// throughout topology.
struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;    ///< 0 to 31
  std::uint8_t function = 0;  ///< 0 to 7

  // clang-tidy 14 mistakes the zero that results are compared with for a null pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;

  /// "0004:04:00.0"; a domain above ffff has as many digits as needed.
  std::string text() const;
  /// Parses "0004:04:00.0", with a domain of 1 to 8 digits or none (then 0), in upper or lower
  /// case. nullopt if `text` is no PCI address.
  static std::optional<PciAddress> parse(std::string_view text);
  /// True if both are functions of one device (one card).
  bool same_card(const PciAddress& other) const noexcept {
    return domain == other.domain && bus == other.bus && device == other.device;
  }
};

}  // namespace weft::topology
