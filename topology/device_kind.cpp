#include "topology/device_kind.hpp"

namespace weft::topology {
namespace {

constexpr std::uint16_t kNvidia = 0x10de;
constexpr std::uint16_t kAmd = 0x1002;
constexpr std::uint16_t kIntel = 0x8086;

}  // namespace

bool is_gpu(std::uint32_t device_class, std::uint16_t vendor, bool behind_bridge,
            bool source_lists_gpus_only) noexcept {
  const bool own = vendor == kNvidia || vendor == kAmd || (vendor == kIntel && behind_bridge);
  const bool unsaid = vendor == 0;
  switch (device_class >> 8) {
    case 0x0302:  // 3D controller
      return own || unsaid;
    case 0x0300:  // VGA: also what servers show their console on
    case 0x0380:  // other display controller
      return own || (unsaid && source_lists_gpus_only);
    case 0x1200:  // processing accelerator
      return vendor == kAmd || (unsaid && source_lists_gpus_only);
    default:
      return false;
  }
}

bool is_nic(std::uint32_t device_class) noexcept { return device_class >> 16 == 0x02; }

bool is_bridge(std::uint32_t device_class) noexcept { return device_class >> 8 == 0x0604; }

}  // namespace weft::topology
