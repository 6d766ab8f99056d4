#include "topology/render/difference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "topology/render/labels.hpp"

namespace weft::topology::render {
namespace {

/// The compared values, by device and property, in the order of output.
using Facts = std::vector<std::pair<std::string, std::string>>;
using Devices = std::map<std::string, Facts>;

std::string link_of(const Model& model, int pci) {
  if (pci == kNone) return "none";
  const auto text = link_text(model.pci[static_cast<std::size_t>(pci)].link);
  return text.empty() ? "unknown" : text;
}

std::string choice_text(const View& view, const Choice& choice) {
  if (choice.nic == kNone) return "no NIC";
  return fmt::format("{}, {}{}", view.nic(choice.nic).name, name(choice.path.path_class),
                     choice.gdr ? ", GPUDirect" : "");
}

/// Addresses with several NICs: ports of one PCI function.
void add_shared(const Model& model, std::set<std::string>& shared) {
  std::set<std::string> seen;
  for (const Nic& nic : model.nics)
    if (!seen.insert(address_text(model, nic)).second) shared.insert(address_text(model, nic));
}

Devices facts_of(const View& view, const std::set<std::string>& shared) {
  const Model& model = view.model;
  Devices devices;
  for (const NumaNode& node : model.numa)
    if (node.memory == MemoryKind::ordinary)
      devices[numa_text(node.number)] = {{"processors", cpus_text(node.cpus)}};
  for (std::size_t i = 0; i < model.gpus.size(); ++i) {
    const Gpu& gpu = model.gpus[i];
    auto& facts = devices[fmt::format("GPU {}", address_text(model, gpu))];
    facts = {{"name", gpu.name},
             {"NUMA node", std::to_string(model.numa_of(gpu))},
             {"link", link_of(model, gpu.pci)}};
    if (const Choice* choice = view.choice_of(static_cast<int>(i)))
      facts.emplace_back("gets", choice_text(view, *choice));
  }
  for (int i = 0; i < static_cast<int>(model.nics.size()); ++i) {
    const Nic& nic = view.nic(i);
    const NicVerdict& verdict = view.verdict(i);
    auto device = fmt::format("NIC {}", address_text(model, nic));
    if (shared.contains(address_text(model, nic))) device += " " + nic.rdma;
    devices[device] = {{"name", nic.name},
                       {"NUMA node", std::to_string(model.numa_of(nic))},
                       {"link", link_of(model, nic.pci)},
                       {"port", std::string(name(verdict.state))},
                       {"rate", verdict.gbits > 0 ? nic_speed_text(verdict.gbits) : "unknown"},
                       {"usable", verdict.usable ? "yes" : "no: " + view.reason(i)}};
  }
  return devices;
}

void compare(const std::string& device, const Facts& a, const Facts& b, std::string& text) {
  std::vector<std::string> changed;
  for (const auto& [fact, value] : a)
    for (const auto& [other, other_value] : b)
      if (fact == other && value != other_value)
        changed.push_back(fmt::format("{} {} | {}", fact, value, other_value));
  if (!changed.empty()) text += fmt::format("{}: {}\n", device, fmt::join(changed, "; "));
}

}  // namespace

Difference difference(const View& a, const View& b) {
  std::set<std::string> shared;
  add_shared(a.model, shared);
  add_shared(b.model, shared);
  const Devices left = facts_of(a, shared);
  const Devices right = facts_of(b, shared);
  Difference result;
  for (const auto& [device, facts] : left) {
    const auto found = right.find(device);
    if (found == right.end())
      result.text += fmt::format("{}: only in {}\n", device, machine_text(a.model));
    else
      compare(device, facts, found->second, result.text);
  }
  for (const auto& [device, facts] : right)
    if (!left.contains(device))
      result.text += fmt::format("{}: only in {}\n", device, machine_text(b.model));
  result.alike = result.text.empty();
  if (result.alike)
    result.text =
        fmt::format("{} and {} are alike\n", machine_text(a.model), machine_text(b.model));
  else
    result.text =
        fmt::format("left: {}, right: {}\n", machine_text(a.model), machine_text(b.model)) +
        result.text;
  return result;
}

}  // namespace weft::topology::render
