// From the machine and the settings of a job to what each of its ranks goes by.
#pragma once

#include <vector>

#include "base/config.hpp"
#include "topology/placement/rank_placement.hpp"
#include "topology/select/select.hpp"

namespace weft::topology {

/// What a job knows of one of its ranks before it has met the others.
struct RankOnHost {
  int index = 0;            ///< among the ranks of this host, from 0
  int count = 1;            ///< of them
  std::vector<int> cpus{};  ///< processors that it may run on
};

/// WEFT_GDR_LEVEL, WEFT_NIC and WEFT_GPU_NIC. Throws Error(bad_config) where WEFT_GPU_NIC is not of
/// its form.
Policy policy_of(const Config& config);

/// The machine as it is, or as WEFT_TOPO_FILE describes it: then with names and ports of the
/// devices that are here, matched by PCI address; what is not here can't be used. A file that
/// describes another machine altogether is left aside with a note. Throws Error(bad_config) for a
/// file that can't be read.
Model machine_of(const Config& config, Model live);

/// All ranks of the host as launchers place them, the one given as it is: in turn over NUMA nodes
/// or packages, in blocks of neighbours, or all as this one, whichever agrees with where this one
/// is.
std::vector<HostRank> assume_ranks(const Model& model, const RankOnHost& own);

/// The choice for one rank, by the same balanced matching for all, which ranks make each for
/// themselves and without talking. A result with a reason but without a NIC forbids RDMA: the
/// host's NICs for data are ones that weft cannot drive, so any other one is not for data.
RankPlacement place_rank(const Model& model, const RankOnHost& own, const Policy& policy);

/// All of the above. Where the machine has neither RDMA devices nor Slingshot's, nothing else is
/// looked at. Throws Error(bad_config) as these do; what fails otherwise is a note.
RankPlacement place_rank(const Config& config, const RankOnHost& own);

}  // namespace weft::topology
