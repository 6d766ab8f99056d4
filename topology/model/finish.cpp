// Completes a model, and finds its devices by name.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/fail.hpp"
#include "topology/model/model.hpp"
#include "topology/model/natural_order.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw_error(Code::bad_argument, "topology", std::move(message),
              "fix the file or the code that described the machine");
}

bool leads_nowhere(int index, std::size_t size) {
  return index < kNone || (index != kNone && static_cast<std::size_t>(index) >= size);
}

std::string words(const PciNode& node, std::size_t index) {
  return node.address ? node.address->text() : fmt::format("PCI node {}", index);
}

void check_tree(const Model& model) {
  enum class Mark : std::uint8_t { fresh, on_the_way, done };
  std::vector<Mark> marks(model.pci.size(), Mark::fresh);
  for (std::size_t start = 0; start < model.pci.size(); ++start) {
    std::vector<std::size_t> way;
    for (std::size_t at = start; marks[at] != Mark::done;) {
      const PciNode& node = model.pci[at];
      if (marks[at] == Mark::on_the_way)
        refuse(fmt::format("{} is above itself in the PCI tree", words(node, at)));
      if (leads_nowhere(node.parent, model.pci.size()))
        refuse(fmt::format("the parent of {} does not exist", words(node, at)));
      marks[at] = Mark::on_the_way;
      way.push_back(at);
      if (node.parent == kNone) break;
      at = static_cast<std::size_t>(node.parent);
    }
    for (const std::size_t node : way) marks[node] = Mark::done;
  }
  for (const Gpu& gpu : model.gpus)
    if (leads_nowhere(gpu.pci, model.pci.size())) refuse("a GPU's PCI node does not exist");
  for (const Nic& nic : model.nics)
    if (leads_nowhere(nic.pci, model.pci.size())) refuse("a NIC's PCI node does not exist");
}

/// Sorts `all`; `places[old]` is the new index.
template <typename T, typename Before>
std::vector<int> sort_with_places(std::vector<T>& all, Before before) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return before(all[a], all[b]); });
  std::vector<int> places(all.size());
  std::vector<T> sorted;
  sorted.reserve(all.size());
  for (const std::size_t from : order) {
    places[from] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(all[from]));
  }
  all = std::move(sorted);
  return places;
}

bool by_address(const std::optional<PciAddress>& a, const std::optional<PciAddress>& b) {
  if (a.has_value() != b.has_value()) return a.has_value();
  return a < b;
}

void sort_gpus(Model& model) {
  const auto places = sort_with_places(model.gpus, [&](const Gpu& a, const Gpu& b) {
    if (model.address_of(a) != model.address_of(b))
      return by_address(model.address_of(a), model.address_of(b));
    return std::tie(a.uuid, a.cuda_ordinal, a.os_name) <
           std::tie(b.uuid, b.cuda_ordinal, b.os_name);
  });
  for (std::size_t i = 0; i < model.gpus.size(); ++i) {
    Gpu& gpu = model.gpus[i];
    gpu.name = fmt::format("GPU{}", i);
    for (GpuLink& link : gpu.links) {
      if (leads_nowhere(link.gpu, places.size())) refuse("a GPU's link leads to no GPU");
      if (link.gpu != kNone) link.gpu = places[static_cast<std::size_t>(link.gpu)];
    }
  }
  for (Gpu& gpu : model.gpus)
    for (GpuLink& link : gpu.links)
      for (std::size_t i = 0; i < model.gpus.size(); ++i)
        if (link.target && model.address_of(model.gpus[i]) == link.target) {
          link.to = PeerKind::gpu;
          link.gpu = static_cast<int>(i);
        }
}

void sort_nics(Model& model) {
  for (Nic& nic : model.nics) {
    std::stable_sort(nic.ports.begin(), nic.ports.end(),
                     [](const Port& a, const Port& b) { return a.number < b.number; });
    std::sort(nic.nets.begin(), nic.nets.end(), before_naturally);
    const auto address = model.address_of(nic);
    if (nic.name.empty()) nic.name = nic.rdma;
    if (nic.name.empty() && address) nic.name = address->text();
    if (nic.name.empty() && !nic.nets.empty()) nic.name = nic.nets.front();
  }
  std::stable_sort(model.nics.begin(), model.nics.end(), [&](const Nic& a, const Nic& b) {
    if (model.address_of(a) != model.address_of(b))
      return by_address(model.address_of(a), model.address_of(b));
    return before_naturally(a.name, b.name);
  });
}

/// Some sources show NUMA nodes beside packages instead of inside: match them by processors.
void find_packages(Model& model) {
  for (NumaNode& node : model.numa) {
    if (node.package != kNone || node.cpus.empty()) continue;
    for (const Package& package : model.packages)
      if (std::find(package.cpus.begin(), package.cpus.end(), node.cpus.front()) !=
          package.cpus.end())
        node.package = package.number;
  }
}

}  // namespace

void finish(Model& model) {
  check_tree(model);
  find_packages(model);
  sort_gpus(model);
  sort_nics(model);
  std::stable_sort(model.numa.begin(), model.numa.end(),
                   [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  std::stable_sort(model.packages.begin(), model.packages.end(),
                   [](const Package& a, const Package& b) { return a.number < b.number; });
}

int find_gpu(const Model& model, std::string_view what) {
  const auto address = PciAddress::parse(what);
  for (std::size_t i = 0; i < model.gpus.size(); ++i) {
    const Gpu& gpu = model.gpus[i];
    if (!what.empty() && (gpu.name == what || gpu.os_name == what || gpu.uuid == what ||
                          (address && model.address_of(gpu) == address)))
      return static_cast<int>(i);
  }
  return kNone;
}

int find_nic(const Model& model, std::string_view what) {
  const auto find = [&](auto matches) {
    const auto at = std::find_if(model.nics.begin(), model.nics.end(), matches);
    return at == model.nics.end() ? kNone : static_cast<int>(at - model.nics.begin());
  };
  if (what.empty()) return kNone;
  // An RDMA device may have the name of another device's interface, and takes precedence.
  if (const int found = find([&](const Nic& nic) { return nic.name == what || nic.rdma == what; });
      found != kNone)
    return found;
  if (const auto address = PciAddress::parse(what)) {
    const auto sits_there = [&](const Nic& nic) { return model.address_of(nic) == address; };
    if (std::count_if(model.nics.begin(), model.nics.end(), sits_there) > 1) return kNone;
    return find(sits_there);
  }
  if (const auto colon = what.rfind(':'); colon != std::string_view::npos) {
    const auto number = what.substr(colon + 1);
    return find([&](const Nic& nic) {
      return nic.name == what.substr(0, colon) &&
             std::any_of(nic.ports.begin(), nic.ports.end(),
                         [&](const Port& port) { return std::to_string(port.number) == number; });
    });
  }
  return find([&](const Nic& nic) {
    return std::find(nic.nets.begin(), nic.nets.end(), what) != nic.nets.end();
  });
}

}  // namespace weft::topology
