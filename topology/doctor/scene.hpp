// A host and the contents of its /sys, read once for all checks.
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
  topology::Model model;  ///< without facts from CUDA
  std::vector<RdmaDevice> rdma;
  int ranks = 1;            ///< number of ranks that the host is to run
  bool ranks_told = false;  ///< false: `ranks` is a guess, one per GPU

  const topology::PciNode& node(int pci) const { return model.pci[static_cast<std::size_t>(pci)]; }
  /// "0000:81:00.0"
  std::string address(int pci) const;
  /// PCI nodes of the GPUs, as indices into Model::pci.
  std::vector<int> gpus() const;
  std::vector<int> nvidia_gpus() const;
  /// PCI nodes of NICs with an RDMA device, each once, as indices into Model::pci. Software devices
  /// have none.
  std::vector<int> nics() const;
};

/// Reads the scene. `host` must outlive the result.
Scene look_at(const Host& host, std::optional<int> ranks);

}  // namespace weft::doctor
