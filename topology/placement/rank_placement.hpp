// A rank's placement: its NIC and the NUMA nodes for its memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::topology {

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
  int staging = -1;                  ///< NUMA node for staging memory: that of the NIC; -1: any
  std::vector<std::string> notes{};  ///< one line for each oddity found
};

}  // namespace weft::topology
