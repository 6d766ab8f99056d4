// A host and what its /sys lists, read once for all checks.
#pragma once

#include <optional>
#include <vector>

#include "topology/doctor/host.hpp"
#include "topology/doctor/pci_functions.hpp"
#include "topology/doctor/rdma_devices.hpp"

namespace weft::doctor {

struct Scene {
  const Host& host;
  std::vector<RdmaDevice> rdma;
  std::vector<PciFunction> pci;
  int ranks = 1;            ///< that the host is to run
  bool ranks_told = false;  ///< otherwise they are a guess: one for each GPU

  std::vector<PciFunction> gpus() const;
  std::vector<PciFunction> nvidia_gpus() const;
  /// Each PCI function with an RDMA device, once.
  std::vector<PciFunction> nics() const;
};

/// `host` must outlive what is returned.
Scene look_at(const Host& host, std::optional<int> ranks);

}  // namespace weft::doctor
