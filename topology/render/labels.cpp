#include "topology/render/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "topology/model/path_class.hpp"
#include "topology/parse/numbers.hpp"

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

std::string nic_speed_text(double gbits) {
  return fmt::format("{:.4g} GB/s = {:.5g} Gb/s", gbits / 8, gbits);
}

std::string in_both_units(const std::string& text) {
  std::string result;
  std::size_t done = 0;
  for (auto at = text.find(" G", 1); at != text.npos; at = text.find(" G", at + 1)) {
    const auto unit = std::string_view(text).substr(at, 5);
    const auto from = text.find_last_not_of("0123456789.", at - 1) + 1;
    const auto rate = parse_fraction(std::string_view(text).substr(from, at - from));
    if (!rate || (unit != " Gb/s" && unit != " GB/s")) continue;
    result += text.substr(done, from - done) + nic_speed_text(unit[2] == 'b' ? *rate : 8 * *rate);
    done = at + unit.size();
  }
  return result + text.substr(done);
}

std::string link_text(const Link& link) {
  const auto lanes = link.width > 0 && link.gt_per_second > 0
                         ? fmt::format("{:g} GT/s x{}", link.gt_per_second, link.width)
                         : "";
  if (!link.known()) return lanes.empty() ? "" : "PCIe " + lanes;
  return "PCIe " + speed_text(link.gbytes) + (lanes.empty() ? "" : " (" + lanes + ")");
}

std::string port_text(const Nic& nic) {
  if (nic.ports.empty()) return "";
  const auto best =
      std::max_element(nic.ports.begin(), nic.ports.end(), [](const Port& a, const Port& b) {
        return std::pair(a.state, a.gbits) < std::pair(b.state, b.gbits);
      });
  std::string text;
  if (best->gbits > 0) text = nic_speed_text(best->gbits);
  if (best->layer != LinkLayer::unknown)
    text += fmt::format("{}{}", text.empty() ? "" : " ", name(best->layer));
  if (best->state != PortState::unknown)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name(best->state));
  return text;
}

std::string nvlink_text(const Model& model) {
  std::vector<std::string> pairs;
  std::size_t all = 0;
  for (std::size_t i = 0; i < model.gpus.size(); ++i)
    for (std::size_t j = i + 1; j < model.gpus.size(); ++j) {
      ++all;
      if (path_between(model, model.gpus[i], model.gpus[j]).path_class == PathClass::NVL)
        pairs.push_back(fmt::format("{}-{}", model.gpus[i].name, model.gpus[j].name));
    }
  if (pairs.empty()) return "";
  if (pairs.size() == all) return all == 1 ? "NVLink joins both GPUs" : "NVLink joins all GPUs";
  constexpr std::size_t kMost = 6;
  if (pairs.size() > kMost) return fmt::format("NVLink joins {} pairs of GPUs", pairs.size());
  std::string text = "NVLink joins ";
  for (const auto& pair : pairs) text += (&pair == &pairs.front() ? "" : ", ") + pair;
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
