#include <fmt/format.h>

#include <algorithm>

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
    for (PciNode& node : model_.pci)
      if (node.address) describe(node);
    note_what_is_missing();
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

  void describe(PciNode& node) {
    const std::string folder = folder_of(*node.address);
    // Classes up to this one also stand for files that hwloc can't read.
    constexpr std::uint32_t kNoClass = 0x000100;
    if (node.device_class <= kNoClass && !class_of(folder))
      node.problem = fmt::format("{}/class can't be read", folder);
    if (node.vendor == 0) node.problem = fmt::format("{}/vendor can't be read", folder);
    read_link(folder, node);
    if (node.kind == PciKind::bridge)
      node.acs_redirect = acs_redirects(files_.read_bytes(folder + "/config", kConfigBytes));
    node.description = driver_name(*node.address);
    if (!node.problem.empty())
      model_.notes.push_back(fmt::format("{}: {}", node.address->text(), node.problem));
  }

  /// hwloc leaves out names that are no address, domains above ffff, and devices that HWLOC_XMLFILE
  /// does not list.
  void note_what_is_missing() {
    for (const std::string& name : files_.list(kFolder)) {
      const auto address = PciAddress::parse(name);
      if (!address)
        model_.notes.push_back(fmt::format("{}/{} is no device: left out", kFolder, name));
      if (!address || find_pci(model_, *address) != kNone) continue;
      const auto device_class = class_of(folder_of(*address));
      constexpr std::uint32_t kDisplay = 0x03;
      if (!device_class || is_nic(*device_class) || *device_class >> 16 == kDisplay)
        model_.notes.push_back(fmt::format("{} is left out: hwloc does not show it", name));
    }
  }

  std::optional<std::uint32_t> class_of(const std::string& folder) const {
    const auto text = files_.read(folder + "/class");
    const auto value = text ? parse_hex(*text) : std::nullopt;
    if (!value || *value > 0xffffff) return std::nullopt;
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
    const double gbytes = pcie_gbytes(link.gt_per_second, link.width);
    if (gbytes > 0)
      node.sources.push_back({.fact = "link", .source = folder + "/current_link_speed"});
    else if (link.known())  // before Linux 4.13
      node.sources.push_back({.fact = "link", .source = "hwloc"});
    if (gbytes > 0) link.gbytes = gbytes;
  }

  /// The name that NVIDIA's driver gives a device; other drivers give none.
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
};

}  // namespace

void describe_pci(const Files& files, Model& model) { PciReader(files, model).read(); }

int find_pci(const Model& model, const PciAddress& address) {
  const auto at = std::find_if(model.pci.begin(), model.pci.end(),
                               [&](const PciNode& node) { return node.address == address; });
  return at == model.pci.end() ? kNone : static_cast<int>(at - model.pci.begin());
}

}  // namespace weft::topology
