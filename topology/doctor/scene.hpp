// A host and what its /sys lists, read once for all checks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/discover/files.hpp"
#include "topology/doctor/host.hpp"
#include "topology/doctor/rdma_devices.hpp"
#include "topology/model/model.hpp"

namespace weft::doctor {

struct Scene {
  const Host& host;
  topology::Files files;
  topology::Model model;  ///< without what CUDA says
  std::vector<RdmaDevice> rdma;
  int ranks = 1;            ///< that the host is to run
  bool ranks_told = false;  ///< otherwise they are a guess: one for each GPU

  const topology::PciNode& node(int pci) const { return model.pci[static_cast<std::size_t>(pci)]; }
  /// "0000:81:00.0"
  std::string address(int pci) const;
  /// Of GPUs, in Model::pci.
  std::vector<int> gpus() const;
  std::vector<int> nvidia_gpus() const;
  /// Of NICs with an RDMA device, in Model::pci, each once. Devices of software are none.
  std::vector<int> nics() const;
};

/// `host` must outlive what is returned.
Scene look_at(const Host& host, std::optional<int> ranks);

}  // namespace weft::doctor
