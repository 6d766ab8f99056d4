// Paths between the devices of a machine, and their classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "topology/model/model.hpp"

namespace weft::topology {

/// Class of the best path between two devices, by what the path crosses; the nearest first.
enum class PathClass : std::uint8_t {
  LOC,   ///< the same device
  NVL,   ///< NVLink or XGMI between GPUs, direct or through NVSwitch
  C2C,   ///< a coherent link between a GPU and its processor
  PIX,   ///< one PCIe switch
  PXB,   ///< several PCIe switches, no host bridge
  P2C,   ///< C2C to the processor, then PCIe on the same NUMA node
  PHB,   ///< the same host bridge
  NODE,  ///< other host bridges of one NUMA node
  SYS    ///< between NUMA nodes, or the NUMA node of one end is not known
};
inline constexpr int kPathClasses = 9;

/// "PIX"
std::string_view name(PathClass path_class) noexcept;
/// "one PCIe switch"
std::string_view meaning(PathClass path_class) noexcept;
/// Accepts upper and lower case; "poster" is PHB. nullopt if `text` is no class.
std::optional<PathClass> parse_path_class(std::string_view text);

/// One path between two devices.
struct Path {
  PathClass path_class = PathClass::SYS;
  int hops = 0;               ///< number of links, as far as the source shows them
  double gbytes = 0;          ///< GB/s of the narrowest link of known speed; 0: none is known
  std::string narrowest{};    ///< that link: "0000:08:00.0, 8 lanes of 8 GT/s"; empty: none known
  double second_gbytes = 0;   ///< like `gbytes`, for links on the second device's side only
  bool second_known = false;  ///< true if the speeds of all links on that side are known
  bool across_packages = false;  ///< SYS: the path leaves the package, or may leave it
  int distance = 0;              ///< SYS: NUMA distance by the firmware; 0: not known
  int meeting = kNone;           ///< in Model::pci: the switch or host bridge common to both
  std::string text{};            ///< description: "one PCIe switch (0000:02:00.0)"
};

/// Path between two PCI nodes, by their position in the tree and their NUMA nodes.
Path path_between(const Model& model, int pci_a, int pci_b);
/// GPU x NIC. P2C if the GPU has a coherent link to the NIC's processor.
Path path_between(const Model& model, const Gpu& gpu, const Nic& nic);
/// GPU x GPU. NVL if direct links or NVSwitches join the two.
Path path_between(const Model& model, const Gpu& a, const Gpu& b);
/// NUMA node x NIC or GPU: NODE or SYS; C2C for a GPU with a coherent link.
Path path_to_numa(const Model& model, int numa, const Nic& nic);
Path path_to_numa(const Model& model, int numa, const Gpu& gpu);

}  // namespace weft::topology
