// The steps of discovery: each adds to a model that begins with packages, NUMA nodes and PCI of
// hwloc.
#pragma once

#include "topology/discover/discover.hpp"
#include "topology/discover/files.hpp"
#include "topology/discover/hwloc/hwloc_machine.hpp"
#include "topology/model/model.hpp"

namespace weft::topology {

/// Finds among the nodes of hwloc those without processors (CXL, HBM, a GPU's memory), to which
/// hwloc gives the nearest processors.
void tell_memory_apart(const Files& files, Model& model);
/// Adds link, ACS and name of each function by sysfs to hwloc's tree of PCI; makes GPUs of the
/// functions that compute.
void describe_pci(const Files& files, Model& model);
/// hwloc's RDMA devices and interfaces.
struct OsDevices {
  const std::vector<OsDevice>& rdma;
  const std::vector<OsDevice>& nets;
};
/// RDMA devices and their ports; network devices that have none. After describe_pci.
void discover_nics(const Files& files, const OsDevices& devices, Model& model, bool count_gids);
/// Modules and the IOMMU.
void discover_host(const Files& files, Model& model);
/// Adds the CUDA driver's facts about GPUs. Call after describe_pci.
void add_cuda(const CudaAnswer& answer, Model& model);

/// Links between GPUs, and to their processors. After add_cuda.
void add_gpu_links(const std::vector<GpuLinks>& answer, Model& model);

/// The Model::pci index of that function; kNone: there is none.
int find_pci(const Model& model, const PciAddress& address);

}  // namespace weft::topology
