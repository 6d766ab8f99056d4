// What a PCI function is, by its class and maker.
#pragma once

#include <cstdint>

namespace weft::topology {

/// A GPU that computes: not the graphics chip of a management controller or of an emulated
/// machine. `device_class` has three bytes (0x030200); vendor 0 is unknown, which counts as a maker
/// of GPUs only for the class of 3D controllers or where `source_lists_gpus_only`.
/// `behind_bridge`: not a part of the processor's own root complex.
bool is_gpu(std::uint32_t device_class, std::uint16_t vendor, bool behind_bridge,
            bool source_lists_gpus_only = false) noexcept;

/// Any network or fabric controller.
bool is_nic(std::uint32_t device_class) noexcept;
bool is_bridge(std::uint32_t device_class) noexcept;  ///< PCI to PCI

}  // namespace weft::topology
