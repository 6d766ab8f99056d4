#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "topology/discover/acs.hpp"
#include "topology/discover/steps.hpp"
#include "topology/model/device_kind.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

constexpr const char* kFolder = "/sys/bus/pci/devices";

/// "8.0 GT/s PCIe"; 0 for "Unknown" and for what does not exist.
double speed_in(const std::optional<std::string>& text) {
  if (!text) return 0;
  return parse_fraction(std::string_view(*text).substr(0, text->find(' '))).value_or(0);
}

class PciReader {
 public:
  PciReader(const Files& files, Model& model) : files_(files), model_(model) {}

  void read() {
    for (const std::string& name : files_.list(kFolder)) add_with_parents(name);
    for (std::size_t i = 0; i < model_.pci.size(); ++i) {
      const PciNode& node = model_.pci[i];
      if (node.kind != PciKind::device || !is_gpu(node.identity(), is_behind_bridge(node)))
        continue;
      Gpu gpu{.pci = static_cast<int>(i)};
      gpu.sources.push_back({.fact = "gpu", .source = folder_of(*node.address) + "/class"});
      model_.gpus.push_back(std::move(gpu));
    }
    // A GPU at rest slows its link down; what counts is the speed that it takes up under load.
    for (const Gpu& gpu : model_.gpus) wake_link(gpu.pci);
  }

 private:
  static std::string folder_of(const PciAddress& address) {
    return fmt::format("{}/{}", kFolder, address.text());
  }

  bool is_behind_bridge(const PciNode& node) const {
    return node.parent != kNone &&
           model_.pci[static_cast<std::size_t>(node.parent)].kind == PciKind::bridge;
  }

  /// The link says who is above: "../../../devices/pci0000:00/0000:00:03.0/0000:04:00.0".
  void add_with_parents(const std::string& name) {
    const auto link = files_.link(fmt::format("{}/{}", kFolder, name));
    if (!link) {
      model_.notes.push_back(fmt::format("{}/{} leads nowhere: left out", kFolder, name));
      return;
    }
    int parent = kNone;
    for (const std::string& part : parts_of(*link)) {
      const auto address = PciAddress::parse(part);
      const bool host_bridge = part.starts_with("pci") && part.find(':') != std::string::npos;
      if (!address && !host_bridge) continue;
      const auto [at, fresh] = places_.try_emplace(part, static_cast<int>(model_.pci.size()));
      if (fresh) {
        PciNode node =
            address ? describe(*address) : PciNode{.kind = PciKind::host_bridge, .name = part};
        node.parent = parent;
        model_.pci.push_back(std::move(node));
      }
      parent = at->second;
    }
  }

  PciNode describe(const PciAddress& address) {
    const std::string folder = folder_of(address);
    PciNode node{.address = address};
    node.device_class = hex(folder + "/class", node.problem);
    node.vendor = static_cast<std::uint16_t>(hex(folder + "/vendor", node.problem));
    node.device = static_cast<std::uint16_t>(hex(folder + "/device", node.problem));
    if (is_bridge(node.device_class)) node.kind = PciKind::bridge;
    if (const auto numa = files_.read_number(folder + "/numa_node"); numa && *numa >= 0) {
      node.numa = static_cast<int>(*numa);
      node.sources.push_back({.fact = "numa", .source = folder + "/numa_node"});
    }
    read_link(folder, node);
    if (node.kind == PciKind::bridge)
      node.acs_redirect = acs_redirects(files_.read_bytes(folder + "/config", kConfigBytes));
    node.description = driver_name(address);
    if (!node.problem.empty())
      model_.notes.push_back(fmt::format("{}: {}", address.text(), node.problem));
    return node;
  }

  std::uint32_t hex(const std::string& path, std::string& problem) const {
    const auto text = files_.read(path);
    const auto value = text ? parse_hex(*text) : std::nullopt;
    if (!value || *value > 0xffffff) {
      problem = fmt::format("{} can't be read", path);
      return 0;
    }
    return static_cast<std::uint32_t>(*value);
  }

  void read_link(const std::string& folder, PciNode& node) const {
    Link& link = node.link;
    const auto width = [&](const char* file) {
      const long lanes = files_.read_number(folder + file).value_or(0);
      constexpr long kMostLanes = 32;  // 255: not known
      return lanes > 0 && lanes <= kMostLanes ? static_cast<int>(lanes) : 0;
    };
    link.gt_per_second = speed_in(files_.read(folder + "/current_link_speed"));
    link.best_gt_per_second = speed_in(files_.read(folder + "/max_link_speed"));
    link.width = width("/current_link_width");
    link.best_width = width("/max_link_width");
    link.gbytes = pcie_gbytes(link.gt_per_second, link.width);
    if (link.known())
      node.sources.push_back({.fact = "link", .source = folder + "/current_link_speed"});
  }

  /// What NVIDIA's driver calls a device; other makers' say nothing there.
  std::string driver_name(const PciAddress& address) const {
    const auto text =
        files_.read(fmt::format("/proc/driver/nvidia/gpus/{}/information", address.text()));
    constexpr std::string_view kKey = "Model:";
    if (!text || !text->starts_with(kKey)) return {};
    const std::size_t begin = text->find_first_not_of(" \t", kKey.size());
    if (begin == std::string::npos) return {};
    return text->substr(begin, text->find('\n') - begin);
  }

  void wake_link(int index) {
    PciNode& node = model_.pci[static_cast<std::size_t>(index)];
    const double best = node.link.best_gt_per_second;
    raise(node.link, best);
    if (is_behind_bridge(node)) {
      Link& above = model_.pci[static_cast<std::size_t>(node.parent)].link;
      raise(above, std::min(best, above.best_gt_per_second));
    }
  }

  static void raise(Link& link, double speed) {
    if (speed <= link.gt_per_second || pcie_gbytes(speed, link.width) <= 0) return;
    link.gt_per_second = speed;
    link.gbytes = pcie_gbytes(speed, link.width);
  }

  const Files& files_;
  Model& model_;
  std::map<std::string, int> places_;
};

}  // namespace

void discover_pci(const Files& files, Model& model) { PciReader(files, model).read(); }

int find_pci(const Model& model, const PciAddress& address) {
  const auto at = std::find_if(model.pci.begin(), model.pci.end(),
                               [&](const PciNode& node) { return node.address == address; });
  return at == model.pci.end() ? kNone : static_cast<int>(at - model.pci.begin());
}

}  // namespace weft::topology
