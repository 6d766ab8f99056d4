#include "topology/model/pci_address.hpp"

#include <fmt/format.h>

#include <charconv>

namespace weft::topology {
namespace {

/// Removes a hexadecimal number of at most `digits` digits and the following `end` (0: end of
/// text).
std::optional<std::uint32_t> take(std::string_view& text, std::size_t digits, char end) {
  const std::size_t length = end == 0 ? text.size() : text.find(end);
  if (length == 0 || length == std::string_view::npos || length > digits) return std::nullopt;
  std::uint32_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + length, value, 16);
  if (error != std::errc{} || stop != text.data() + length) return std::nullopt;
  text.remove_prefix(end == 0 ? length : length + 1);
  return value;
}

}  // namespace

std::string PciAddress::text() const {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

std::optional<PciAddress> PciAddress::parse(std::string_view text) {
  std::uint32_t domain = 0;
  if (text.find(':') != text.rfind(':')) {
    const auto given = take(text, 8, ':');
    if (!given) return std::nullopt;
    domain = *given;
  }
  const auto bus = take(text, 2, ':');
  const auto device = bus ? take(text, 2, '.') : std::nullopt;
  const auto function = device ? take(text, 1, 0) : std::nullopt;
  if (!function || *device > 31 || *function > 7) return std::nullopt;
  return PciAddress{.domain = domain,
                    .bus = static_cast<std::uint8_t>(*bus),
                    .device = static_cast<std::uint8_t>(*device),
                    .function = static_cast<std::uint8_t>(*function)};
}

}  // namespace weft::topology
