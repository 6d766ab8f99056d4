#include <fmt/format.h>

#include <algorithm>

#include "topology/discover/steps.hpp"
#include "topology/model/device_kind.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

constexpr const char* kRdma = "/sys/class/infiniband";

/// "4: ACTIVE"
PortState state_in(const std::string& text) {
  switch (text.empty() ? ' ' : text.front()) {
    case '1':
      return PortState::down;
    case '2':
      return PortState::initializing;
    case '3':
      return PortState::armed;
    case '4':
      return PortState::active;
    case '5':
      return PortState::active_defer;
    default:
      return PortState::unknown;
  }
}

LinkLayer layer_in(const std::string& text) {
  if (text == "InfiniBand") return LinkLayer::infiniband;
  return text == "Ethernet" ? LinkLayer::ethernet : LinkLayer::unknown;
}

class NicReader {
 public:
  NicReader(const Files& files, const OsDevices& devices, Model& model, bool count_gids)
      : files_(files), devices_(devices), model_(model), count_gids_(count_gids) {}

  void read() {
    // Listed by sysfs, since hwloc leaves out software devices.
    for (const std::string& name : files_.list(kRdma)) add_rdma(name);
    add_plain();
  }

 private:
  static int pci_of(const std::vector<OsDevice>& devices, const std::string& name) {
    for (const OsDevice& device : devices)
      if (device.name == name) return device.pci;
    return kNone;
  }

  /// Interfaces of a PCI function, sorted.
  std::vector<std::string> nets_of(int pci) const {
    std::vector<std::string> names;
    for (const OsDevice& net : devices_.nets)
      if (net.pci == pci) names.push_back(net.name);
    std::sort(names.begin(), names.end());
    return names;
  }

  void add_rdma(const std::string& name) {
    const std::string folder = fmt::format("{}/{}", kRdma, name);
    Nic nic{.rdma = name};
    nic.sources.push_back({.fact = "nic", .source = folder});
    nic.pci = pci_of(devices_.rdma, name);
    // A device of software stands on an interface, which may be one of PCI.
    const auto parent = files_.read(folder + "/parent");
    if (nic.pci == kNone && parent) nic.pci = pci_of(devices_.nets, *parent);
    if (nic.pci != kNone)
      nic.nets = nets_of(nic.pci);
    else if (parent)
      nic.nets = {*parent};
    for (const std::string& number : files_.list(folder + "/ports")) add_port(folder, number, nic);
    if (nic.ports.empty()) {
      nic.problem = "its ports can't be read";
      model_.notes.push_back(fmt::format("{}: {}/ports can't be read", name, folder));
    }
    model_.nics.push_back(std::move(nic));
  }

  void add_port(const std::string& device, const std::string& name, Nic& nic) {
    const auto number = parse_whole(name);
    if (!number || *number < 1 || *number > 255) return;
    const std::string folder = fmt::format("{}/ports/{}", device, name);
    Port port{.number = static_cast<int>(*number)};
    port.state = state_in(files_.read(folder + "/state").value_or(""));
    port.layer = layer_in(files_.read(folder + "/link_layer").value_or(""));
    // "100 Gb/sec (4X EDR)"
    const std::string rate = files_.read(folder + "/rate").value_or("");
    const double gbits =
        parse_fraction(std::string_view(rate).substr(0, rate.find(' '))).value_or(0);
    port.gbits = gbits > 0 ? gbits : 0;
    if (count_gids_) port.gids = gids_in(folder + "/gids");
    port.net = files_.read(folder + "/gid_attrs/ndevs/0").value_or("");
    for (const char* fact : {"state", "rate"})
      port.sources.push_back({.fact = fact, .source = fmt::format("{}/{}", folder, fact)});
    nic.ports.push_back(std::move(port));
  }

  int gids_in(const std::string& folder) const {
    int count = 0;
    for (const std::string& index : files_.list(folder)) {
      const auto gid = files_.read(fmt::format("{}/{}", folder, index));
      if (gid && gid->find_first_not_of("0:") != std::string::npos) ++count;
    }
    return count;
  }

  /// Network controllers without an RDMA device: shown, and never chosen.
  void add_plain() {
    std::vector<bool> has_rdma(model_.pci.size());
    for (const Nic& nic : model_.nics)
      if (nic.pci != kNone) has_rdma[static_cast<std::size_t>(nic.pci)] = true;
    for (std::size_t i = 0; i < model_.pci.size(); ++i) {
      const PciNode& node = model_.pci[i];
      if (!node.address || has_rdma[i] || !is_nic(node.device_class)) continue;
      Nic nic{.pci = static_cast<int>(i), .no_rdma = true};
      nic.nets = nets_of(nic.pci);
      nic.sources.push_back(
          {.fact = "nic",
           .source = fmt::format("/sys/bus/pci/devices/{}/class", node.address->text())});
      model_.nics.push_back(std::move(nic));
    }
  }

  const Files& files_;
  const OsDevices& devices_;
  Model& model_;
  const bool count_gids_;
};

}  // namespace

void discover_nics(const Files& files, const OsDevices& devices, Model& model, bool count_gids) {
  NicReader(files, devices, model, count_gids).read();
}

}  // namespace weft::topology
