// What the user says by WEFT_NIC and WEFT_GPU_NIC, against what there is.
#pragma once

#include <string>
#include <vector>

#include "topology/select/select.hpp"

namespace weft::topology {

struct Override {
  int nic = kNone;   ///< in Model::nics; kNone: the user says nothing
  int port = 0;      ///< 0: any
  std::string by{};  ///< "WEFT_NIC=mlx5_1"
};

struct Overrides {
  Override all{};
  std::vector<Override> gpus{};  ///< as Model::gpus

  /// The GPU's own, else that of all.
  const Override& of(const HostRank& rank) const;
};

/// Throws Error(bad_config) for what does not exist, can't be used, or is said twice.
Overrides read_overrides(const Model& model, const std::vector<NicVerdict>& verdicts,
                         const Policy& policy);

}  // namespace weft::topology
