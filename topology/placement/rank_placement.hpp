// What a rank of a job goes by: its NIC, and where its memory had best lie.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::topology {

struct RankPlacement {
  std::string nic{};  ///< RDMA device; empty: topology has no word on it
  int port = 0;       ///< 0: any
  std::string reason{};
  std::vector<std::pair<std::string, std::string>> others{};  ///< other RDMA devices, and why not
  int numa = -1;                     ///< for arenas; -1: wherever the kernel puts them
  int staging = -1;                  ///< for memory that a NIC reads copies from: on the NIC's node
  std::vector<std::string> notes{};  ///< one line for whatever was odd
};

}  // namespace weft::topology
