#include "topology/render/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace weft::topology::render {
namespace {

template <typename Device>
std::string text_of_address(const Model& model, const Device& device) {
  const auto address = model.address_of(device);
  return address ? address->text() : "not on PCI";
}

}  // namespace

std::string address_text(const Model& model, const Gpu& gpu) { return text_of_address(model, gpu); }

std::string address_text(const Model& model, const Nic& nic) { return text_of_address(model, nic); }

std::string bridge_text(const PciNode& node) {
  const char* what = node.kind == PciKind::host_bridge ? "host bridge" : "PCIe switch";
  if (node.address) return fmt::format("{} {}", what, node.address->text());
  // Host bridges from NCCL's files have made-up names: "processor of NUMA node 0".
  const bool of_its_own = node.name.find(' ') != node.name.npos;
  return node.name.empty() || of_its_own ? what : fmt::format("{} {}", what, node.name);
}

std::string speed_text(double gbytes) {
  return gbytes > 0 ? fmt::format("{:.3g} GB/s", gbytes) : "speed unknown";
}

std::string link_text(const Link& link) {
  if (link.width > 0 && link.gt_per_second > 0)
    return fmt::format("PCIe {:g} GT/s x{}", link.gt_per_second, link.width);
  return link.known() ? "PCIe " + speed_text(link.gbytes) : "";
}

std::string port_text(const Nic& nic) {
  if (nic.ports.empty()) return "";
  const auto best =
      std::max_element(nic.ports.begin(), nic.ports.end(), [](const Port& a, const Port& b) {
        return std::pair(a.state, a.gbits) < std::pair(b.state, b.gbits);
      });
  std::string text;
  if (best->gbits > 0) text = fmt::format("{:g} Gb/s", best->gbits);
  if (best->layer != LinkLayer::unknown)
    text += fmt::format("{}{}", text.empty() ? "" : " ", name(best->layer));
  if (best->state != PortState::unknown)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name(best->state));
  return text;
}

std::string machine_text(const Model& model) {
  if (!model.file.empty()) return std::filesystem::path(model.file).filename().string();
  return model.host.empty() ? "this machine" : model.host;
}

std::string numa_text(int numa) {
  return numa == kNone ? "NUMA node unknown" : fmt::format("NUMA node {}", numa);
}

std::string count_text(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string cpus_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace weft::topology::render
