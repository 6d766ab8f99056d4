// A rank's placement: its GPU and NIC, and the NUMA nodes for its memory.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::topology {

/// The path from a GPU of the host to the rank's NIC.
struct GpuPlacement {
  std::string pci{};     ///< the GPU's address, "0000:0f:00.0"
  bool gdr = false;      ///< the NIC should reach its memory: it is near enough (WEFT_GDR_LEVEL)
  std::string reason{};  ///< why, or why not
  int staging = -1;      ///< NUMA node of the host memory that its tensors go through, if they do
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
  bool gdr = false;                  ///< the NIC should reach that GPU's memory
  std::string gpu_reason{};          ///< why that GPU, or why none
  std::vector<GpuPlacement> gpus{};  ///< all of the host, with the rank's NIC
  std::vector<std::string> notes{};  ///< one line for each oddity found

  /// Whether the paths of `gpus` are those of this RDMA device: the rank's own, or one as near.
  bool is_near(std::string_view device) const {
    if (device == nic) return true;
    for (const auto& [rail, rail_port] : rails)
      if (device == rail) return true;
    return false;
  }
};

}  // namespace weft::topology
