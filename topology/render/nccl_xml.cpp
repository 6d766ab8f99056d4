#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "topology/render/exports.hpp"
#include "topology/render/outline.hpp"
#include "topology/render/xml_text.hpp"

namespace weft::topology::render {
namespace {

/// "00000000,00ffffff": 32 processors per group, the highest group first.
std::string affinity_text(const std::vector<int>& cpus) {
  const int most = cpus.empty() ? 0 : *std::max_element(cpus.begin(), cpus.end());
  std::vector<std::uint32_t> groups(static_cast<std::size_t>(most) / 32 + 1);
  for (const int cpu : cpus)
    if (cpu >= 0) groups[static_cast<std::size_t>(cpu) / 32] |= std::uint32_t{1} << (cpu % 32);
  std::string text;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group)
    text += fmt::format("{}{:08x}", text.empty() ? "" : ",", *group);
  return text;
}

const char* class_of(PeerKind kind) {
  switch (kind) {
    case PeerKind::gpu:
      return "0x030200";
    case PeerKind::nvswitch:
      return "0x068000";
    case PeerKind::cpu:
      return "0x068001";
  }
  return "";
}

struct Lanes {
  double gt_per_second = 0;
  int width = 0;
};

/// hwloc has only the data rate: returns the nearest speed and width, with more lanes rather than a
/// higher speed.
Lanes lanes_of(const Link& link) {
  if (link.gt_per_second > 0 && link.width > 0) return {link.gt_per_second, link.width};
  Lanes nearest;
  double least = HUGE_VAL;
  for (const double speed : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0})
    for (const int width : {16, 8, 4, 2, 1}) {
      const double off = std::abs(pcie_gbytes(speed, width) / link.gbytes - 1);
      if (off > least - 0.001) continue;
      least = off;
      nearest = {speed, width};
    }
  return nearest;
}

class Writer {
 public:
  explicit Writer(const View& view) : view_(view), model_(view.model) {}

  std::string write() {
    text_ = "<system version=\"1\">\n";
    for (const Outline& part : outline(model_).children) write_home(part);
    return text_ + "</system>\n";
  }

 private:
  template <typename... Args>
  void line(int depth, fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<std::size_t>(depth) * 2, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void write_home(const Outline& part) {
    if (part.part == Part::package) {
      for (const Outline& numa : part.children) write_home(numa);
      return;
    }
    bool is_written = false;
    for (const Outline& child : part.children) {
      if (!has_usable(child)) continue;
      const bool is_root = child.part == Part::host_bridge;
      write_cpu(part.index, is_root ? child.children : std::vector{child});
      is_written = true;
    }
    if (!is_written && part.index != kNone) write_cpu(part.index, {});
  }

  bool has_usable(const Outline& part) const {
    if (part.part == Part::nic) return view_.verdict(part.index).usable;
    return part.part == Part::gpu ||
           std::any_of(part.children.begin(), part.children.end(),
                       [this](const Outline& child) { return has_usable(child); });
  }

  /// Writes each host bridge as a <cpu> of its own, because NCCL has no other boundary between
  /// them.
  void write_cpu(int numa, const std::vector<Outline>& devices) {
    std::string affinity;
    for (const NumaNode& node : model_.numa)
      if (node.number == numa) affinity = fmt::format(" affinity=\"{}\"", affinity_text(node.cpus));
    line(1, "<cpu numaid=\"{}\"{}>", numa, affinity);
    write_devices(devices, 2);
    line(1, "</cpu>");
  }

  void write_devices(const std::vector<Outline>& parts, int depth) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Outline& part = parts[i];
      if (part.part == Part::gpu) write_gpu(part, depth);
      if (part.part == Part::nic) i = write_nics(parts, i, depth);
      if (part.part != Part::pci_switch || !has_usable(part)) continue;
      open_pci(part.index, part.link, depth, "");
      write_devices(part.children, depth + 1);
      line(depth, "</pci>");
    }
  }

  void open_pci(int index, const Link& link, int depth, const char* end) {
    const PciNode& node = model_.pci[static_cast<std::size_t>(index)];
    std::string attributes;
    const auto add = [&](const char* name, const std::string& value) {
      attributes += fmt::format(" {}=\"{}\"", name, xml_text(value));
    };
    add("busid",
        node.address ? node.address->text() : fmt::format("ffff:ff:{:02x}.0", ++nameless_));
    const std::uint32_t bridge = 0x060400;
    add("class",
        fmt::format("0x{:06x}", node.kind == PciKind::device ? node.device_class : bridge));
    if (node.vendor != 0) add("vendor", fmt::format("0x{:04x}", node.vendor));
    if (node.device != 0) add("device", fmt::format("0x{:04x}", node.device));
    if (link.known()) {
      const Lanes lanes = lanes_of(link);
      add("link_speed", fmt::format("{:.1f} GT/s PCIe", lanes.gt_per_second));
      add("link_width", std::to_string(lanes.width));
    }
    line(depth, "<pci{}{}>", attributes, end);
  }

  void write_gpu(const Outline& part, int depth) {
    const Gpu& gpu = view_.gpu(part.index);
    open_pci(gpu.pci, part.link, depth, "");
    const auto direct = gpu.gpudirect ? fmt::format(" gdr=\"{}\"", *gpu.gpudirect ? 1 : 0) : "";
    line(depth + 1, "<gpu dev=\"{0}\" rank=\"{0}\"{1}>", part.index, direct);
    for (const GpuLink& link : gpu.links) {
      auto target = link.target;
      if (!target && link.gpu != kNone) target = model_.address_of(view_.gpu(link.gpu));
      line(depth + 2, "<nvlink{} count=\"{}\" tclass=\"{}\"/>",
           target ? fmt::format(" target=\"{}\"", target->text()) : "", link.count,
           class_of(link.to));
    }
    if (gpu.c2c_gbytes > 0)
      line(depth + 2, "<c2c bw=\"{:g}\" count=\"1\"/>", gpu.c2c_gbytes * 1000);
    line(depth + 1, "</gpu>");
    line(depth, "</pci>");
  }

  /// Writes the NICs from `first` on that belong to one PCI function; returns the index of the
  /// last.
  std::size_t write_nics(const std::vector<Outline>& parts, std::size_t first, int depth) {
    const int pci = view_.nic(parts[first].index).pci;
    std::vector<int> usable;
    std::size_t last = first;
    for (std::size_t i = first; i < parts.size(); ++i) {
      if (parts[i].part != Part::nic || view_.nic(parts[i].index).pci != pci) break;
      last = i;
      if (view_.verdict(parts[i].index).usable) usable.push_back(parts[i].index);
    }
    if (usable.empty()) return last;
    const bool named = std::any_of(usable.begin(), usable.end(),
                                   [&](int nic) { return !view_.nic(nic).rdma.empty(); });
    if (pci != kNone) open_pci(pci, parts[first].link, depth, named ? "" : "/");
    if (named) {
      line(depth + 1, "<nic>");
      for (const int nic : usable) write_ports(nic, depth + 2);
      line(depth + 1, "</nic>");
      if (pci != kNone) line(depth, "</pci>");
    }
    return last;
  }

  void write_ports(int index, int depth) {
    const Nic& nic = view_.nic(index);
    const auto& usable = view_.verdict(index).ports;
    const auto direct = nic.gpudirect ? fmt::format(" gdr=\"{}\"", *nic.gpudirect ? 1 : 0) : "";
    const auto write = [&](const std::string& more) {
      line(depth, "<net name=\"{}\" dev=\"{}\"{}{}/>", xml_text(nic.rdma), nets_++, more, direct);
    };
    if (nic.ports.empty()) write("");
    for (const Port& port : nic.ports) {
      if (std::find(usable.begin(), usable.end(), port.number) == usable.end()) continue;
      const auto speed = port.gbits > 0 ? fmt::format(" speed=\"{:.0f}\"", port.gbits * 1000) : "";
      write(fmt::format(" port=\"{}\"{}", port.number, speed));
    }
  }

  const View& view_;
  const Model& model_;
  std::string text_;
  int nameless_ = 0;
  int nets_ = 0;
};

}  // namespace

std::string as_nccl_xml(const View& view) { return Writer(view).write(); }

}  // namespace weft::topology::render
