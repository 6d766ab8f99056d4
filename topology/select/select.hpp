// Selects a NIC for each rank, with reasons: a pure function of model, ranks and policy. The result
// does not depend on the order in which devices were found.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/model/model.hpp"
#include "topology/model/path_class.hpp"

namespace weft::topology {

/// The user's settings.
struct Policy {
  PathClass gdr_level = PathClass::PXB;  ///< farthest class with GPUDirect (WEFT_GDR_LEVEL)
  bool gdr_never = false;                ///< WEFT_GDR_LEVEL=never
  std::string nic{};                     ///< WEFT_NIC: "mlx5_0", "mlx5_0:2"; empty: not set
  std::vector<std::pair<std::string, std::string>> gpu_nic{};  ///< WEFT_GPU_NIC, as (GPU, NIC)
  /// True: skip NICs that weft cannot drive, as a job does. False: they can be a rank's NIC.
  bool driven_only = false;
};

/// Parses "GPU0=mlx5_0,0000:2d:00.0=mlx5_3". Throws Error(bad_config) if it is malformed.
std::vector<std::pair<std::string, std::string>> parse_gpu_nic(const std::string& text);
/// Parses "PXB", "poster", "never" into `policy`. Throws Error(bad_config).
void set_gdr_level(Policy& policy, const std::string& text);

/// One rank of this host.
struct HostRank {
  int rank = 0;
  int gpu = kNone;          ///< in Model::gpus; kNone: the rank moves no GPU memory
  std::vector<int> cpus{};  ///< processors that it may run on; empty: any
};

/// One rank per GPU, for matrix and JSON. Without GPUs, one per NUMA node with processors.
std::vector<HostRank> rank_per_gpu(const Model& model);
/// `count` ranks: GPUs round-robin; without GPUs, blocks of ranks on each NUMA node.
std::vector<HostRank> spread_ranks(const Model& model, int count);

/// The verdict on one NIC, independent of ranks.
struct NicVerdict {
  int nic = kNone;
  bool usable = false;
  bool possible = false;     ///< an override may name it: only a rule of thumb speaks against it
  std::vector<int> ports{};  ///< numbers of usable ports; empty if the source has no ports
  double gbits = 0;          ///< Gb/s of the best usable port, else of the best port; 0: not known
  PortState state = PortState::unknown;  ///< of that port
  LinkLayer layer = LinkLayer::unknown;
  std::string reason{};      ///< why the NIC may be used, or why not
  std::string not_driven{};  ///< why weft cannot drive the NIC; empty: it can
};

/// One NIC from the perspective of one rank.
struct Candidate {
  int nic = kNone;
  bool accepted = false;  ///< NicVerdict::usable
  bool rail = false;      ///< as good as the best
  bool chosen = false;    ///< by the balanced assignment, or an override
  Path path{};
  double gbytes = 0;  ///< GB/s used for comparison: of its port and of the links on its side
  bool partly_known = false;  ///< the speed of a link or port is unknown, which is no advantage
  std::string reason{};       ///< never empty: "PIX, 25 GB/s: equal best, given to rank 1"
};

/// The result for one rank.
struct Choice {
  int rank = 0;
  int gpu = kNone;
  int nic = kNone;   ///< in Model::nics; kNone: no NIC may be used
  int port = 0;      ///< port number; 0: the source has no ports
  Path path{};       ///< to that NIC; from the rank's NUMA node if it has no GPU
  bool gdr = false;  ///< the NIC may read and write the GPU's memory
  std::string gdr_reason{};
  int bounce_numa = kNone;   ///< NUMA node of staging memory; kNone with gdr, or if not known
  int numa = kNone;          ///< preferred NUMA node for this rank's arenas
  std::vector<int> rails{};  ///< all equally best NICs, by PCI address
  std::vector<Candidate> candidates{};  ///< all NICs, the best first
  std::string reason{};                 ///< summary in one line
};

struct Selection {
  std::vector<NicVerdict> nics{};  ///< indexed like Model::nics
  std::vector<Choice> choices{};   ///< in the order of `ranks`
  std::size_t paths_computed = 0;  ///< amount of work, for tests
  std::size_t matching_steps = 0;
};

/// The reason why `nic` may not access the memory of `gpu` over `path`; empty if it may.
std::string gdr_hindrance(const Model& model, const Gpu& gpu, const Nic& nic, const Path& path,
                          const Policy& policy);

/// Filters NICs (port active, link layer, rate, no management port), compares path class and
/// bandwidth, and balances over all ranks: among equals, no NIC gets two ranks more than another.
/// Follows the overrides in `policy` if possible. Throws Error(bad_config) for an impossible
/// override, and Error(bad_argument) for a rank whose GPU does not exist.
Selection select(const Model& model, const std::vector<HostRank>& ranks, const Policy& policy = {});

}  // namespace weft::topology
