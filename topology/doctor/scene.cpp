#include "topology/doctor/scene.hpp"

#include <algorithm>
#include <iterator>

namespace weft::doctor {
namespace {

template <typename Wanted>
std::vector<PciFunction> those(const std::vector<PciFunction>& functions, Wanted wanted) {
  std::vector<PciFunction> found;
  std::copy_if(functions.begin(), functions.end(), std::back_inserter(found), wanted);
  return found;
}

}  // namespace

std::vector<PciFunction> Scene::gpus() const {
  return those(pci, [](const PciFunction& function) { return function.is_gpu(); });
}

std::vector<PciFunction> Scene::nvidia_gpus() const {
  return those(pci, [](const PciFunction& function) { return function.is_nvidia_gpu(); });
}

std::vector<PciFunction> Scene::nics() const {
  return those(pci, [this](const PciFunction& function) {
    return std::any_of(rdma.begin(), rdma.end(),
                       [&](const RdmaDevice& device) { return device.pci == function.dir; });
  });
}

Scene look_at(const Host& host, std::optional<int> ranks) {
  Scene scene{host, rdma_devices(host.root), pci_functions(host.root)};
  scene.ranks_told = ranks.has_value();
  scene.ranks = ranks.value_or(std::max(1, static_cast<int>(scene.gpus().size())));
  return scene;
}

}  // namespace weft::doctor
