// What a PCI function is, by its class and maker.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::topology {

/// What a PCI function says about itself.
struct PciIdentity {
  std::uint32_t device_class = 0;  ///< three bytes: 0x030200
  std::uint16_t vendor = 0;        ///< 0: not known
  std::uint16_t device = 0;
};

/// A GPU that computes: not the graphics chip of a management controller (ASPEED, Matrox, ATI's
/// ES1000), a hypervisor (QEMU, Cirrus, Hyper-V, VMware) or a cloud (Amazon). An unknown vendor
/// counts as a maker of GPUs only for the class of 3D controllers or if `source_lists_gpus_only`.
/// `behind_bridge`: not a part of the processor's own root complex.
bool is_gpu(const PciIdentity& identity, bool behind_bridge,
            bool source_lists_gpus_only = false) noexcept;

/// Why weft's verbs fabric cannot drive a NIC: it has no reliable connected queue pairs in
/// hardware. Empty: it can.
std::string_view why_not_driven(const PciIdentity& identity) noexcept;

/// Any network or fabric controller.
bool is_nic(std::uint32_t device_class) noexcept;
bool is_bridge(std::uint32_t device_class) noexcept;  ///< PCI to PCI

}  // namespace weft::topology
