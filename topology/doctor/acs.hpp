// Access Control Services: PCI switches that send traffic between their own devices up to the
// processor, where it is checked, and so take the short way from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/doctor/pci_functions.hpp"

namespace weft::doctor {

enum class Redirects : std::uint8_t { no, yes, unreadable };

/// Of a bridge's configuration space. Users other than root get its first 64 bytes only, which
/// don't tell.
Redirects redirects(std::string_view configuration);

struct Redirections {
  std::size_t pairs = 0;                ///< of devices below one switch
  std::vector<std::string> gpu_to_nic;  ///< bridges that redirect, by address
  std::vector<std::string> gpu_to_gpu;  ///< others that do
  std::vector<std::string> unread;      ///< bridges that can't be asked
};

/// What stands between devices that share a switch.
Redirections redirections(std::span<const PciFunction> gpus, std::span<const PciFunction> nics);

}  // namespace weft::doctor
