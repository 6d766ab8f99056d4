// Places the ranks of a job: derives NIC and NUMA nodes from the machine and the job's settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "topology/placement/rank_placement.hpp"
#include "topology/select/select.hpp"

namespace weft::topology {

/// A GPU that NVIDIA's driver has here, and that the process may open.
struct DrivenGpu {
  std::string pci{};
  std::string uuid{};  ///< "GPU-5c89..."; empty: the driver does not say yet
};

/// The facts about a rank that a job knows before the ranks are connected.
struct RankOnHost {
  int index = 0;                                        ///< among the ranks of this host, from 0
  int count = 1;                                        ///< number of ranks of this host
  std::vector<int> cpus{};                              ///< processors that the rank may run on
  std::string gpu = "auto";                             ///< WEFT_GPU
  std::optional<std::string> visible_gpus{};            ///< CUDA_VISIBLE_DEVICES
  std::optional<std::vector<DrivenGpu>> driven_gpus{};  ///< nullopt: all that the model has
  bool wiring_shown = true;  ///< false: a virtual machine, whose bridges need not be real
  /// False: GPUs may have coherent links to the processor that the model does not show.
  bool coherent_links_known = true;
};

/// Reads WEFT_GDR_LEVEL, WEFT_NIC and WEFT_GPU_NIC. Throws Error(bad_config) if WEFT_GPU_NIC or
/// WEFT_GDR_LEVEL is malformed.
Policy policy_of(const Config& config);

/// Returns `live`, or the machine that WEFT_TOPO_FILE describes, with names and ports of the live
/// devices at the same PCI addresses; devices that this machine does not have cannot be used. A
/// file that describes another machine altogether is ignored with a note. Throws Error(bad_config)
/// if the file cannot be read.
Model machine_of(const Config& config, Model live);

/// Assumes how the launcher has placed the other ranks of the host: round-robin over NUMA nodes or
/// packages, in blocks, or all with the same processors as this rank; the first of these that
/// agrees with this rank's processors.
std::vector<HostRank> assume_ranks(const Model& model, const RankOnHost& own);

/// Chooses for one rank: its GPU in turn, and a NIC near that GPU or near the rank's processors.
/// The GPU counts if WEFT_GPU or CUDA_VISIBLE_DEVICES names it alone, or if it lies on a NUMA node
/// of the rank's: no process knows yet whether it will use its GPU. All ranks compute the same
/// balanced matching, without communication. No driver is asked. A result with a `reason` but
/// without `nic` forbids RDMA: weft cannot drive the host's NICs for data, so any other NIC is not
/// meant for data.
RankPlacement place_rank(const Model& model, const RankOnHost& own, const Policy& policy);

/// RankPlacement::allowed_numa of any rank of this process.
std::vector<int> nodes_for_arenas();

/// All of the above but `allowed_numa`, for this machine; WEFT_GPU and CUDA_VISIBLE_DEVICES are
/// read. If the machine has neither RDMA devices nor Slingshot NICs, no further discovery is done,
/// and no GPU chosen. Throws Error(bad_config) like the functions above; any other failure becomes
/// a note.
RankPlacement place_rank(const Config& config, const RankOnHost& own);

}  // namespace weft::topology
