#include "topology/model/device_kind.hpp"

namespace weft::topology {
namespace {

constexpr std::uint16_t kNvidia = 0x10de;
constexpr std::uint16_t kAmd = 0x1002;
constexpr std::uint16_t kIntel = 0x8086;
constexpr std::uint16_t kAmazon = 0x1d0f;
constexpr std::uint16_t kCray = 0x17db;
constexpr std::uint16_t kCornelis = 0x434e;

/// True for AMD chips that only drive a server's console.
bool shows_a_console(const PciIdentity& identity) noexcept {
  constexpr std::uint16_t kEs1000 = 0x515e;
  constexpr std::uint16_t kRageXl = 0x4752;
  return identity.vendor == kAmd && (identity.device == kEs1000 || identity.device == kRageXl);
}

}  // namespace

bool is_gpu(const PciIdentity& identity, bool behind_bridge, bool source_lists_gpus_only) noexcept {
  if (shows_a_console(identity)) return false;
  const std::uint16_t vendor = identity.vendor;
  const bool own = vendor == kNvidia || vendor == kAmd || (vendor == kIntel && behind_bridge);
  const bool unsaid = vendor == 0;
  switch (identity.device_class >> 8) {
    case 0x0302:  // 3D controller
      return own || unsaid;
    case 0x0300:  // VGA controller: also the chips that drive a server's console
    case 0x0380:  // other display controller
      return own || (unsaid && source_lists_gpus_only);
    case 0x1200:  // processing accelerator
      return vendor == kAmd || (unsaid && source_lists_gpus_only);
    default:
      return false;
  }
}

std::string_view why_not_driven(const PciIdentity& identity) noexcept {
  if (!is_nic(identity.device_class)) return {};
  constexpr std::uint16_t kEfaSeries = 0xefa;
  if (identity.vendor == kAmazon && identity.device >> 4 == kEfaSeries)
    return "EFA has no RC queue pairs";
  if (identity.vendor == kCray) return "Slingshot has no verbs";
  const bool intel_hfi =
      identity.vendor == kIntel && (identity.device == 0x24f0 || identity.device == 0x24f1);
  if (identity.vendor == kCornelis || intel_hfi)
    return "Omni-Path has RC queue pairs in software only";
  return {};
}

bool is_nic(std::uint32_t device_class) noexcept { return device_class >> 16 == 0x02; }

bool is_bridge(std::uint32_t device_class) noexcept { return device_class >> 8 == 0x0604; }

}  // namespace weft::topology
