// The PCI functions of a host, as /sys shows them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft::doctor {

struct PciLink {
  double speed = 0;  ///< GT/s per lane; 0: not told
  int width = 0;     ///< lanes; 0: not told

  bool is_known() const noexcept { return speed > 0 && width > 0; }
  /// Gb/s that it carries.
  double gbps() const noexcept;
  /// "x16 at 16 GT/s"
  std::string text() const;
};

struct PciFunction {
  std::string address;        ///< "0000:81:00.0"
  std::filesystem::path dir;  ///< of /sys/devices: its parents are the bridges above it
  std::uint32_t kind = 0;     ///< class code, 24 bits
  std::uint32_t vendor = 0;
  PciLink now{};
  PciLink most{};

  bool is_gpu() const noexcept;
  bool is_nvidia_gpu() const noexcept { return is_gpu() && vendor == 0x10de; }
};

/// Every PCI function, by address. Empty where /sys shows none.
std::vector<PciFunction> pci_functions(const std::filesystem::path& root);
std::optional<PciFunction> read_pci_function(const std::filesystem::path& dir);
/// The bridges above it, the nearest first.
std::vector<PciFunction> bridges_above(const PciFunction& function);

}  // namespace weft::doctor
