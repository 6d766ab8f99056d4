// Describes the machine that it runs on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topology/model/model.hpp"

namespace weft::topology {

/// One device as the CUDA driver shows it to this process.
struct CudaDevice {
  int ordinal = 0;
  PciAddress pci{};  ///< of the whole GPU, for a MIG slice too
  std::string name{};
  std::string uuid{};
  bool mig = false;
  std::optional<bool> dma_buf{};
  std::optional<bool> gpudirect{};
};

/// The CUDA driver's answer.
struct CudaAnswer {
  std::string version{};  ///< "12.4"; empty: no driver
  std::string problem{};  ///< why there is none, or which device could not be asked
  std::vector<CudaDevice> devices{};
};

/// Loads libcuda.so.1 if it is installed, and asks it.
CudaAnswer ask_cuda_driver();

/// The links of one GPU, as NVIDIA's management library shows them.
struct GpuLinks {
  PciAddress pci;
  std::vector<GpuLink> links{};
  double c2c_gbytes = 0;  ///< to its own processor; 0: none
};

/// Loads libnvidia-ml.so.1 if it is installed, and asks it for links between GPUs. Empty where
/// there is none of it; never throws.
std::vector<GpuLinks> ask_nvml();

struct DiscoverOptions {
  /// Null: CUDA is not asked (which takes a while, and a driver).
  std::function<CudaAnswer()> cuda = ask_cuda_driver;
  bool count_gids = true;  ///< tables of 256 entries for each port: jobs don't need them here
  /// Null: links between GPUs are not asked for.
  std::function<std::vector<GpuLinks>()> nvml = ask_nvml;
};

/// Describes the machine by hwloc; adds ports, links and ACS, which hwloc lacks, by sysfs, and the
/// facts of NVIDIA's libraries. With HWLOC_FSROOT, describes the machine below that folder. Needs
/// no privileges. Facts that cannot be read stay unknown; an odd device becomes a line of
/// Model::notes and PciNode::problem. Throws only std::bad_alloc. Thread-safe.
Model discover(const DiscoverOptions& options = {});

/// The NUMA nodes that have both processors and memory, ascending. Empty if no other node has
/// memory, or if the kernel does not tell.
std::vector<int> nodes_with_processors();

}  // namespace weft::topology
