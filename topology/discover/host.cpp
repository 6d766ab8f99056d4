#include <fmt/format.h>

#include "topology/discover/steps.hpp"

namespace weft::topology {

void discover_host(const Files& files, Model& model) {
  model.host = files.read("/proc/sys/kernel/hostname").value_or("");
  if (files.exists("/sys/module"))
    model.facts.peermem =
        files.exists("/sys/module/nvidia_peermem") || files.exists("/sys/module/nv_peer_mem");
  if (!files.exists("/sys/kernel/iommu_groups")) return;
  // A group of type "identity" passes addresses through untranslated.
  bool translates = false;
  for (const std::string& group : files.list("/sys/kernel/iommu_groups")) {
    const auto type = files.read(fmt::format("/sys/kernel/iommu_groups/{}/type", group));
    translates |= type && type->starts_with("DMA");
  }
  model.facts.iommu = translates;
}

}  // namespace weft::topology
