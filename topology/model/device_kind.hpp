// Classifies PCI functions by class and vendor.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::topology {

/// The identity that a PCI function reports.
struct PciIdentity {
  std::uint32_t device_class = 0;  ///< three bytes, such as 0x030200
  std::uint16_t vendor = 0;        ///< 0: not known
  std::uint16_t device = 0;
};

/// True for a GPU for computing. False for graphics chips of management controllers (ASPEED,
/// Matrox, ATI ES1000), hypervisors (QEMU, Cirrus, Hyper-V, VMware) and clouds (Amazon). An unknown
/// vendor counts as a GPU maker only for class 3D controller or with `source_lists_gpus_only`.
/// `behind_bridge`: the function is not part of the processor's own root complex.
bool is_gpu(const PciIdentity& identity, bool behind_bridge,
            bool source_lists_gpus_only = false) noexcept;

/// The reason why weft's verbs fabric cannot drive a NIC: it has no reliable connected queue pairs
/// in hardware. Empty if verbs can drive the NIC.
std::string_view why_not_driven(const PciIdentity& identity) noexcept;

/// True for any network or fabric controller.
bool is_nic(std::uint32_t device_class) noexcept;
bool is_bridge(std::uint32_t device_class) noexcept;  ///< true for PCI-to-PCI bridges

}  // namespace weft::topology
