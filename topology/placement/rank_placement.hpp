// A rank's placement: its GPU and NIC, and the NUMA nodes for its memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::topology {

/// A path that GPUDirect does not take: it is known to be longer than WEFT_GDR_LEVEL.
struct FarGpu {
  std::string nic{};     ///< RDMA device
  std::string pci{};     ///< the GPU's address, "0000:0f:00.0"
  std::string reason{};  ///< "SYS is beyond PXB"
};

struct RankPlacement {
  std::string nic{};  ///< RDMA device; empty: topology makes no choice
  int port = 0;       ///< 0: any
  /// Ports that are as near as this one, which may be among them: RDMA device and port (0: any).
  std::vector<std::pair<std::string, int>> rails{};
  std::string reason{};
  std::vector<std::pair<std::string, std::string>> others{};  ///< other RDMA devices, and why not
  int numa = -1;  ///< NUMA node for arenas; -1: left to the kernel
  /// NUMA nodes that arenas must lie on: those with processors. Empty: any, because no other node
  /// has memory, or because the process has a memory policy of its own (numactl).
  std::vector<int> allowed_numa{};
  int staging = -1;  ///< NUMA node for staging memory: that of the NIC; -1: any
  /// The rank's GPU, by its PCI address; empty: topology makes no choice, and the driver's GPUs
  /// are taken in turn.
  std::string gpu{};
  std::string gpu_reason{};  ///< why that GPU, or why none
  /// GPUs that the process is assumed to see, in CUDA's order: `gpu` holds if it sees just these.
  std::vector<std::string> visible_gpus{};
  std::vector<FarGpu> far_gpus{};    ///< of `nic` and `rails`; no other path is judged
  std::vector<std::string> notes{};  ///< one line for each oddity found
};

}  // namespace weft::topology
