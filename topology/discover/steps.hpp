// What discovery is made of: each step adds to the model what its part of /sys says.
#pragma once

#include "topology/discover/discover.hpp"
#include "topology/discover/files.hpp"
#include "topology/model/model.hpp"

namespace weft::topology {

/// Packages, NUMA nodes and their distances.
void discover_memory(const Files& files, Model& model);
/// The tree of PCI, links and NUMA nodes of its devices; what computes becomes a GPU.
void discover_pci(const Files& files, Model& model);
/// RDMA devices and their ports; network devices that have none. After discover_pci.
void discover_nics(const Files& files, Model& model, bool count_gids);
/// Modules and the IOMMU.
void discover_host(const Files& files, Model& model);
/// What the CUDA driver says of GPUs. After discover_pci.
void add_cuda(const CudaAnswer& answer, Model& model);

/// Links between GPUs, and to their processors. After add_cuda.
void add_gpu_links(const std::vector<GpuLinks>& answer, Model& model);

/// The Model::pci index of that function; kNone: there is none.
int find_pci(const Model& model, const PciAddress& address);

}  // namespace weft::topology
