#include "topology/doctor/scene.hpp"

#include <algorithm>

#include "topology/discover/discover.hpp"

namespace weft::doctor {

std::string Scene::address(int pci) const {
  const auto& address = node(pci).address;
  return address ? address->text() : node(pci).name;
}

std::vector<int> Scene::gpus() const {
  std::vector<int> found;
  for (const topology::Gpu& gpu : model.gpus) found.push_back(gpu.pci);
  return found;
}

std::vector<int> Scene::nvidia_gpus() const {
  constexpr std::uint16_t kNvidia = 0x10de;
  auto found = gpus();
  std::erase_if(found, [this](int pci) { return node(pci).vendor != kNvidia; });
  return found;
}

std::vector<int> Scene::nics() const {
  std::vector<int> found;
  for (const RdmaDevice& device : rdma)
    if (device.pci != topology::kNone &&
        std::find(found.begin(), found.end(), device.pci) == found.end())
      found.push_back(device.pci);
  return found;
}

Scene look_at(const Host& host, std::optional<int> ranks) {
  const std::string root = host.root == "/" ? "" : host.root.string();
  Scene scene{host, topology::Files(root), topology::discover({.cuda = nullptr}), {}};
  scene.rdma = rdma_devices(scene.files, scene.model);
  scene.ranks_told = ranks.has_value();
  scene.ranks = ranks.value_or(std::max(1, static_cast<int>(scene.model.gpus.size())));
  return scene;
}

}  // namespace weft::doctor
