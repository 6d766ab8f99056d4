// The user's overrides WEFT_NIC and WEFT_GPU_NIC, checked against the machine.
#pragma once

#include <string>
#include <vector>

#include "topology/select/select.hpp"

namespace weft::topology {

struct Override {
  int nic = kNone;   ///< in Model::nics; kNone: no override
  int port = 0;      ///< 0: any
  std::string by{};  ///< "WEFT_NIC=mlx5_1"
};

struct Overrides {
  Override all{};
  std::vector<Override> gpus{};  ///< indexed like Model::gpus

  /// The override of the rank's GPU, else that for all.
  const Override& of(const HostRank& rank) const;
};

/// Throws Error(bad_config) for an override that names a missing or unusable device, or a GPU
/// twice.
Overrides read_overrides(const Model& model, const std::vector<NicVerdict>& verdicts,
                         const Policy& policy);

}  // namespace weft::topology
