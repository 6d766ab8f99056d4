// Where a PCI function sits, its domain included.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::topology {

/// A PCI function. Ordered by domain, bus, device, function, which is the order in which ties are
/// settled everywhere in this room. A value.
struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;    ///< 0 to 31
  std::uint8_t function = 0;  ///< 0 to 7

  // clang-tidy 14 takes the zero that results are compared with for a null pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;

  /// "0004:04:00.0"; a domain above ffff takes the digits that it needs.
  std::string text() const;
  /// "0004:04:00.0", also with a domain of 1 to 8 digits, without a domain (then 0), in upper case.
  /// nullopt when it is none.
  static std::optional<PciAddress> parse(std::string_view text);
  /// Whether both are functions of one device (of one card).
  bool same_card(const PciAddress& other) const noexcept {
    return domain == other.domain && bus == other.bus && device == other.device;
  }
};

}  // namespace weft::topology
