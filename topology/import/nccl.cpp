// Reads NCCL's topology XML: processors with the PCI tree below them, each switch as one element.
#include <algorithm>

#include "topology/import/kinds.hpp"
#include "topology/import/pci_tree.hpp"
#include "topology/import/trouble.hpp"
#include "topology/model/device_kind.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

constexpr std::uint32_t kSwitchClass = 0x0680;  // tclass of NVSwitches, and of POWER9 processors
constexpr double kMostGbytes = 10'000;          // GB/s; no GPU link is faster: the value is wrong
constexpr double kMostGbits = 10'000;           // Gb/s; no port is faster: the value is wrong

/// "0x030200", "0x0302"; 0 for "".
std::optional<std::uint32_t> parse_class(const std::string& text) {
  if (text.empty()) return 0;
  const auto value = parse_hex(text);
  if (!value || *value > 0xffffff) return std::nullopt;
  const std::size_t digits =
      text.size() - (text.starts_with("0x") || text.starts_with("0X") ? 2 : 0);
  return static_cast<std::uint32_t>(digits <= 4 ? *value << 8 : *value);
}

class NcclReader {
 public:
  NcclReader(const XmlElement& root, const std::string& name)
      : root_(root), name_(name), tree_(model_, name) {}

  Model read() {
    model_.origin = Origin::nccl_xml;
    for (const XmlElement& child : root_.children) {
      if (child.name == "cpu") read_cpu(child);
      if (child.name == "pci") read_pci(child, kNone, kNone);
    }
    // A file without any <net> describes a machine whose NICs are matched by address: all its
    // network devices count. In a file with named NICs, one without a name is not an RDMA device.
    if (std::any_of(model_.nics.begin(), model_.nics.end(),
                    [](const Nic& nic) { return !nic.rdma.empty(); }))
      for (Nic& nic : model_.nics) nic.no_rdma = nic.rdma.empty();
    if (model_.pci.empty()) refuse_file(name_, root_.line, "describes no PCI device");
    return std::move(model_);
  }

 private:
  void read_cpu(const XmlElement& cpu) {
    const int numa = whole(cpu, "numaid", kNone, kNone, 1 << 20);
    std::vector<int> cpus;
    if (const std::string* affinity = cpu.attribute("affinity")) {
      auto parsed = parse_bitmap(*affinity);
      if (!parsed)
        refuse(cpu, fmt::format("affinity=\"{}\" is no set of processors", excerpt(*affinity)));
      cpus = std::move(*parsed);
    }
    const bool known = std::any_of(model_.numa.begin(), model_.numa.end(),
                                   [&](const NumaNode& node) { return node.number == numa; });
    if (numa != kNone && !known)
      model_.numa.push_back(
          {.number = numa, .cpus = std::move(cpus), .source = tree_.source(cpu.line)});
    PciNode bridge{.kind = PciKind::host_bridge, .numa = numa};
    bridge.name = numa == kNone ? fmt::format("processor of line {}", cpu.line)
                                : fmt::format("processor of NUMA node {}", numa);
    const int index = tree_.add(std::move(bridge), cpu.line);
    for (const XmlElement& child : cpu.children) {
      if (child.name == "pci") read_pci(child, index, numa);
      if (child.name == "nic") read_nic(child, index);
    }
  }

  void read_pci(const XmlElement& pci, int parent, int numa) {
    PciNode node{.parent = parent, .address = tree_.address(pci, "busid"), .numa = numa};
    if (const std::string* text = pci.attribute("class")) {
      const auto parsed = parse_class(*text);
      if (!parsed) refuse(pci, fmt::format("class=\"{}\" is no PCI class", excerpt(*text)));
      node.device_class = *parsed;
    }
    node.vendor = identifier(pci, "vendor");
    node.device = identifier(pci, "device");
    node.link = read_link(pci, node);
    const auto has = [&](std::string_view name) {
      return std::any_of(pci.children.begin(), pci.children.end(),
                         [&](const XmlElement& child) { return child.name == name; });
    };
    const bool gpu = has("gpu") || (!has("pci") && is_gpu(node.identity(), true, true));
    const bool nic = has("nic") || (!gpu && is_nic(node.device_class));
    if (!gpu && !nic && (is_bridge(node.device_class) || has("pci")))
      node.kind = PciKind::whole_switch;
    const int index = tree_.add(std::move(node), pci.line);
    if (gpu) read_gpu(pci, index);
    const std::size_t before = model_.nics.size();
    for (const XmlElement& child : pci.children) {
      if (child.name == "pci") read_pci(child, index, numa);
      if (child.name == "nic") read_nic(child, index);
    }
    const bool described =
        std::any_of(model_.nics.begin() + static_cast<std::ptrdiff_t>(before), model_.nics.end(),
                    [&](const Nic& n) { return n.pci == index; });
    if (nic && !described) {
      Nic plain{.pci = index};
      plain.sources.push_back({.fact = "nic", .source = tree_.source(pci.line)});
      model_.nics.push_back(std::move(plain));
    }
  }

  Link read_link(const XmlElement& pci, PciNode& node) {
    Link link;
    if (const std::string* speed = pci.attribute("link_speed"))
      link.gt_per_second = parse_fraction(speed->substr(0, speed->find(' '))).value_or(0);
    if (const std::string* width = pci.attribute("link_width"))
      link.width = static_cast<int>(std::clamp(parse_whole(*width).value_or(0), 0L, 1000L));
    link.gbytes = pcie_gbytes(link.gt_per_second, link.width);
    if (!link.known() && (link.gt_per_second != 0 || link.width != 0)) {
      model_.notes.push_back(
          fmt::format("{}, line {}: the link of {} has a speed or width that does not "
                      "exist: taken for unknown",
                      name_, pci.line, node.address->text()));
      link = {};
    }
    node.sources.push_back({.fact = "link", .source = tree_.source(pci.line)});
    return link;
  }

  void read_gpu(const XmlElement& pci, int index) {
    Gpu gpu{.pci = index};
    gpu.sources.push_back({.fact = "gpu", .source = tree_.source(pci.line)});
    for (const XmlElement& child : pci.children) {
      if (child.name != "gpu") continue;
      gpu.gpudirect = flag(child, "gdr");
      for (const XmlElement& link : child.children) read_gpu_link(link, gpu);
    }
    model_.gpus.push_back(std::move(gpu));
  }

  void read_gpu_link(const XmlElement& element, Gpu& gpu) {
    const int count = whole(element, "count", 1, 0, 1000);
    if (element.name == "c2c") {
      const std::string* bandwidth = element.attribute("bw");  // MB/s per link
      const double gbytes =
          bandwidth == nullptr ? 0 : parse_fraction(*bandwidth).value_or(0) * count / 1000;
      gpu.c2c_gbytes = gbytes > 0 && gbytes <= kMostGbytes ? gbytes : 0;
      return;
    }
    if (element.name != "nvlink" && element.name != "xgmi") return;
    GpuLink link{.count = count};
    if (element.attribute("target") != nullptr) link.target = tree_.address(element, "target");
    const std::string* text = element.attribute("tclass");
    const auto device_class = text == nullptr ? 0 : parse_class(*text).value_or(0);
    if (device_class >> 8 == kSwitchClass)
      link.to = (device_class & 0xff) == 0 ? PeerKind::nvswitch : PeerKind::cpu;
    gpu.links.push_back(link);
  }

  void read_nic(const XmlElement& element, int index) {
    for (const XmlElement& net : element.children) {
      if (net.name != "net") continue;
      const std::string* name = net.attribute("name");
      Port port{.number = whole(net, "port", 1, 0, 255)};
      if (const std::string* speed = net.attribute("speed")) {
        const double gbits = parse_fraction(*speed).value_or(0) / 1000;
        if (gbits > 0 && gbits <= kMostGbits) port.gbits = gbits;
      }
      port.sources.push_back({.fact = "rate", .source = tree_.source(net.line)});
      Nic& nic = nic_of(index, name == nullptr ? std::string{} : *name, net);
      if (std::any_of(nic.ports.begin(), nic.ports.end(),
                      [&](const Port& other) { return other.number == port.number; }))
        refuse(net, fmt::format("port {} of {} was there before", port.number,
                                nic.rdma.empty() ? "this device" : excerpt(nic.rdma)));
      nic.ports.push_back(std::move(port));
    }
  }

  /// The NIC named `rdma` on device `index`; added if there is none yet.
  Nic& nic_of(int index, const std::string& rdma, const XmlElement& net) {
    for (Nic& nic : model_.nics) {
      if (nic.rdma != rdma) continue;
      if (nic.pci == index) return nic;
      if (!rdma.empty())
        refuse(net, fmt::format("{} was there before, on another device", excerpt(rdma)));
    }
    Nic& nic = model_.nics.emplace_back();
    nic.pci = index;
    nic.rdma = rdma;
    nic.gpudirect = flag(net, "gdr");
    nic.sources.push_back({.fact = "nic", .source = tree_.source(net.line)});
    return nic;
  }

  int whole(const XmlElement& element, const char* attribute, int otherwise, int least,
            int most) const {
    const std::string* text = element.attribute(attribute);
    if (text == nullptr) return otherwise;
    const auto value = parse_whole(*text);
    if (!value || *value < least || *value > most)
      refuse(element, fmt::format("{}=\"{}\" is no number from {} to {}", attribute, excerpt(*text),
                                  least, most));
    return static_cast<int>(*value);
  }

  static std::optional<bool> flag(const XmlElement& element, const char* attribute) {
    const std::string* text = element.attribute(attribute);
    if (text == nullptr) return std::nullopt;
    return *text != "0";
  }

  std::uint16_t identifier(const XmlElement& element, const char* attribute) const {
    const std::string* text = element.attribute(attribute);
    const auto value = text == nullptr ? std::nullopt : parse_hex(*text);
    return value && *value < 0xffff ? static_cast<std::uint16_t>(*value) : std::uint16_t{0};
  }

  [[noreturn]] void refuse(const XmlElement& element, std::string what) const {
    refuse_file(name_, element.line, std::move(what));
  }

  const XmlElement& root_;
  const std::string& name_;
  Model model_;
  PciTree tree_;
};

}  // namespace

Model read_nccl(const XmlElement& root, const std::string& name) {
  return NcclReader(root, name).read();
}

}  // namespace weft::topology
