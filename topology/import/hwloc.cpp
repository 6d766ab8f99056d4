// Reads hwloc's XML, versions 1, 2 and 3: one tree of processors, memory and devices.
#include <algorithm>
#include <map>

#include "topology/import/hwloc_devices.hpp"
#include "topology/import/kinds.hpp"
#include "topology/import/pci_tree.hpp"
#include "topology/import/trouble.hpp"
#include "topology/model/device_kind.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

/// Properties that an object inherits from its ancestors.
struct Around {
  int package = kNone;
  int numa = kNone;  ///< NUMA node for devices
  int pci = kNone;   ///< nearest bridge or device above
};

bool is_type(const XmlElement& element, std::string_view type) {
  const std::string* own = element.attribute("type");
  return element.name == "object" && own != nullptr && *own == type;
}

class HwlocReader {
 public:
  HwlocReader(const XmlElement& root, const std::string& name)
      : root_(root),
        name_(name),
        tree_(model_, name),
        devices_(model_, tree_, name, version(root)) {}

  Model read() {
    model_.origin = Origin::hwloc_xml;
    for (const XmlElement& child : root_.children) collect_memory(child, kNone);
    for (const XmlElement& child : root_.children) walk(child, {});
    for (const XmlElement& child : root_.children)
      if (child.name.starts_with("distances2")) devices_.read_distances(child);
    devices_.conclude();
    if (model_.pci.empty())
      model_.notes.push_back(
          fmt::format("{} holds no PCI device: hwloc leaves them out unless it is "
                      "asked (lstopo --whole-io FILE.xml)",
                      name_));
    return std::move(model_);
  }

 private:
  static int version(const XmlElement& root) {
    const std::string* text = root.attribute("version");
    const auto value = text == nullptr ? std::nullopt : parse_fraction(*text);
    return value && *value >= 1 && *value < 100 ? static_cast<int>(*value) : 1;
  }

  std::vector<int> bitmap(const XmlElement& element, const char* attribute) const {
    const std::string* text = element.attribute(attribute);
    if (text == nullptr) return {};
    auto bits = parse_bitmap(*text);
    if (!bits)
      refuse_file(name_, element.line,
                  fmt::format("{}=\"{}\" is no bitmap", attribute, excerpt(*text)));
    return std::move(*bits);
  }

  int os_index(const XmlElement& element) const {
    const std::string* text = element.attribute("os_index");
    if (text == nullptr) return kNone;
    const auto value = parse_whole(*text);
    if (!value || *value < kNone || *value > 1 << 20)
      refuse_file(name_, element.line, fmt::format("os_index=\"{}\" is no number", excerpt(*text)));
    return static_cast<int>(*value);
  }

  /// Reads packages and NUMA nodes, before devices refer to them.
  void collect_memory(const XmlElement& element, int package) {
    if (is_type(element, "Package") || is_type(element, "Socket")) {
      package = os_index(element);
      Package own{.number = package, .cpus = bitmap(element, "cpuset")};
      own.model = info(element, "CPUModel");
      model_.packages.push_back(std::move(own));
    }
    if (is_type(element, "Machine")) model_.host = info(element, "HostName");
    if (is_type(element, "NUMANode")) read_numa(element, package);
    for (const XmlElement& child : element.children)
      if (child.name == "object") collect_memory(child, package);
  }

  void read_numa(const XmlElement& element, int package) {
    NumaNode node{
        .number = os_index(element), .package = package, .cpus = bitmap(element, "cpuset")};
    if (node.number == kNone) refuse_file(name_, element.line, "a NUMANode has no os_index");
    const std::string* subtype = element.attribute("subtype");
    if (subtype != nullptr && *subtype == "GPUMemory")
      node.memory = MemoryKind::gpu;
    else if (node.cpus.empty() || (subtype != nullptr && *subtype != "DRAM"))
      node.memory = MemoryKind::other;
    if (const std::string* bytes = element.attribute("local_memory"))
      node.bytes = static_cast<std::uint64_t>(std::max(0L, parse_whole(*bytes).value_or(0)));
    node.source = tree_.source(element.line);
    for (const NumaNode& other : model_.numa)
      if (other.number == node.number)
        refuse_file(name_, element.line, fmt::format("NUMA node {} was there before", node.number));
    model_.numa.push_back(std::move(node));
  }

  /// NUMA node of devices below an object with this `nodeset`: the only node with ordinary memory,
  /// or the first of several nodes with the same processors.
  int numa_of(const std::vector<int>& nodeset) const {
    const NumaNode* found = nullptr;
    for (const NumaNode& node : model_.numa) {
      if (node.memory != MemoryKind::ordinary ||
          std::find(nodeset.begin(), nodeset.end(), node.number) == nodeset.end())
        continue;
      if (found == nullptr || (node.cpus == found->cpus && node.number < found->number))
        found = &node;
      else if (node.cpus != found->cpus)
        return kNone;
    }
    return found == nullptr ? kNone : found->number;
  }

  void walk(const XmlElement& element, Around around) {
    if (element.name != "object") return;
    if (element.attribute("nodeset") != nullptr)
      around.numa = numa_of(bitmap(element, "nodeset"));
    else if (is_type(element, "NUMANode"))
      around.numa = numa_of({os_index(element)});
    if (is_type(element, "Bridge"))
      around.pci = add_bridge(element, around);
    else if (is_type(element, "PCIDev"))
      around.pci = devices_.add(element, around.pci, around.numa);
    else if (is_type(element, "OSDev"))
      devices_.add_os_device(element, around.pci);
    for (const XmlElement& child : element.children) walk(child, around);
  }

  int add_bridge(const XmlElement& element, const Around& around) {
    const std::string* type = element.attribute("bridge_type");
    const bool host =
        type != nullptr ? type->starts_with("0-") : element.attribute("pci_busid") == nullptr;
    PciNode node{.kind = host ? PciKind::host_bridge : PciKind::bridge,
                 .parent = around.pci,
                 .numa = around.numa};
    if (!host) devices_.describe(element, node);
    if (const std::string* buses = element.attribute("bridge_pci"); host && buses != nullptr)
      node.name = *buses;
    return tree_.add(std::move(node), element.line);
  }

  const XmlElement& root_;
  const std::string& name_;
  Model model_;
  PciTree tree_;
  HwlocDevices devices_;
};

}  // namespace

Model read_hwloc(const XmlElement& root, const std::string& name) {
  return HwlocReader(root, name).read();
}

}  // namespace weft::topology
