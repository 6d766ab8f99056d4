// Which NIC for which rank, and why: a pure function of model, ranks and policy. The same input
// gives the same output, in whatever order devices were found.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/model/model.hpp"
#include "topology/model/path_class.hpp"

namespace weft::topology {

/// What the user may say.
struct Policy {
  PathClass gdr_level = PathClass::PXB;  ///< GPUDirect up to here (WEFT_GDR_LEVEL)
  bool gdr_never = false;                ///< WEFT_GDR_LEVEL=never
  std::string nic{};                     ///< WEFT_NIC: "mlx5_0", "mlx5_0:2"; empty: no word
  std::vector<std::pair<std::string, std::string>> gpu_nic{};  ///< WEFT_GPU_NIC, as (GPU, NIC)
  /// Pass over NICs that weft cannot drive, as a job does. False: they are shown as a rank's NIC.
  bool driven_only = false;
};

/// "GPU0=mlx5_0,0000:2d:00.0=mlx5_3". Throws Error(bad_config) where it is not of that form.
std::vector<std::pair<std::string, std::string>> parse_gpu_nic(const std::string& text);
/// "PXB", "poster", "never". Throws Error(bad_config).
void set_gdr_level(Policy& policy, const std::string& text);

/// One rank of this host.
struct HostRank {
  int rank = 0;
  int gpu = kNone;          ///< in Model::gpus; kNone: it moves no GPU memory
  std::vector<int> cpus{};  ///< that it may run on; empty: any
};

/// One rank for each GPU, as matrix and JSON show it. Without GPUs one for each NUMA node of
/// processors.
std::vector<HostRank> rank_per_gpu(const Model& model);
/// `count` ranks: GPUs in turn; without GPUs, NUMA nodes in even shares.
std::vector<HostRank> spread_ranks(const Model& model, int count);

/// What became of one NIC before any rank was looked at.
struct NicVerdict {
  int nic = kNone;
  bool usable = false;
  bool possible = false;  ///< an override may name it: what stands against it is a rule of thumb
  std::vector<int>
      ports{};       ///< numbers of those that may be used; empty where the source hides them
  double gbits = 0;  ///< of the best port that may be used, else of the best; 0: not known
  PortState state = PortState::unknown;  ///< of that port
  LinkLayer layer = LinkLayer::unknown;
  std::string reason{};      ///< why it may be used, or why not
  std::string not_driven{};  ///< why weft cannot drive it, whatever else it is; empty: it can
};

/// One NIC as seen from one rank.
struct Candidate {
  int nic = kNone;
  bool accepted = false;  ///< NicVerdict::usable
  bool rail = false;      ///< as good as the best
  bool chosen = false;    ///< by the balanced assignment, or an override
  Path path{};
  double gbytes = 0;  ///< GB/s that count in the comparison: of its port and the links on its side
  bool partly_known = false;  ///< the speed of a link or port is missing: never preferred for it
  std::string reason{};       ///< always there: "PIX, 25 GB/s: equal best, given to rank 1"
};

/// What one rank gets.
struct Choice {
  int rank = 0;
  int gpu = kNone;
  int nic = kNone;   ///< in Model::nics; kNone: none may be used
  int port = 0;      ///< number; 0: the source hides ports
  Path path{};       ///< to that NIC; from the rank's NUMA node where it has no GPU
  bool gdr = false;  ///< the NIC may read and write the GPU's memory
  std::string gdr_reason{};
  int bounce_numa = kNone;   ///< where host memory for staging lies; kNone with gdr, or not known
  int numa = kNone;          ///< where this rank's arenas had best lie
  std::vector<int> rails{};  ///< all equal best, by PCI address
  std::vector<Candidate> candidates{};  ///< all NICs, the best first
  std::string reason{};                 ///< the verdict in one line
};

struct Selection {
  std::vector<NicVerdict> nics{};  ///< as Model::nics
  std::vector<Choice> choices{};   ///< as the ranks were given
  std::size_t paths_computed = 0;  ///< how much work it was
  std::size_t matching_steps = 0;
};

/// Why the NIC may not read and write the GPU's memory over that path. Empty: it may.
std::string gdr_hindrance(const Model& model, const Gpu& gpu, const Nic& nic, const Path& path,
                          const Policy& policy);

/// Filter (port active, link layer, rate, no management port), path class, bandwidth, then a
/// balanced matching over all ranks: among equals no NIC gets two ranks more than another.
/// Overrides in `policy` are obeyed where they are possible. Throws Error(bad_config) for one that
/// is not, and Error(bad_argument) for a rank whose GPU does not exist.
Selection select(const Model& model, const std::vector<HostRank>& ranks, const Policy& policy = {});

}  // namespace weft::topology
