// How two devices of a machine are joined.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "topology/model/model.hpp"

namespace weft::topology {

/// What the best path between two devices crosses, the nearest first.
enum class PathClass : std::uint8_t {
  LOC,   ///< the same device
  NVL,   ///< NVLink or XGMI between GPUs, by switches of its own or none
  C2C,   ///< a coherent link between a GPU and its processor
  PIX,   ///< one PCIe switch
  PXB,   ///< several PCIe switches, no host bridge
  P2C,   ///< C2C to the processor, then PCIe on the same NUMA node
  PHB,   ///< the same host bridge
  NODE,  ///< other host bridges of one NUMA node
  SYS    ///< between NUMA nodes, or it is not known where one of them is
};
inline constexpr int kPathClasses = 9;

/// "PIX"
std::string_view name(PathClass path_class) noexcept;
/// "one PCIe switch"
std::string_view meaning(PathClass path_class) noexcept;
/// Upper or lower case; "poster" is PHB. nullopt when it is none.
std::optional<PathClass> parse_path_class(std::string_view text);

/// One way between two devices.
struct Path {
  PathClass path_class = PathClass::SYS;
  int hops = 0;               ///< links from one to the other, as far as the source shows them
  double gbytes = 0;          ///< GB/s of the narrowest link whose speed is known; 0: none is
  std::string narrowest{};    ///< which one: "0000:08:00.0, 8 lanes of 8 GT/s"; empty: none known
  double second_gbytes = 0;   ///< the same of the links on the second device's side alone
  bool second_known = false;  ///< the speed of every link on that side is known
  bool across_packages = false;  ///< SYS: from one package to another, as far as is known
  int distance = 0;              ///< SYS: of the NUMA nodes, by the firmware; 0: not known
  int meeting = kNone;           ///< in Model::pci: the switch or host bridge where both meet
  std::string text{};            ///< in words: "one PCIe switch (0000:02:00.0)"
};

/// Between two PCI nodes, by their place in the tree and their NUMA nodes.
Path path_between(const Model& model, int pci_a, int pci_b);
/// GPU x NIC. P2C where the GPU has a coherent link to the NIC's processor.
Path path_between(const Model& model, const Gpu& gpu, const Nic& nic);
/// GPU x GPU. NVL where links or a switch of their own join them.
Path path_between(const Model& model, const Gpu& a, const Gpu& b);
/// NUMA node x NIC or GPU: NODE or SYS, for a GPU with a coherent link C2C.
Path path_to_numa(const Model& model, int numa, const Nic& nic);
Path path_to_numa(const Model& model, int numa, const Gpu& gpu);

}  // namespace weft::topology
