// The settings of a rank that fabrics and slots act by.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "p2p/transport/address/fabric_kind.hpp"
#include "p2p/transport/local_rank_options.hpp"
#include "topology/placement/rank_placement.hpp"

namespace weft::p2p {

struct RankSettings {
  explicit RankSettings(const LocalRankOptions& options);

  const std::string record_dir;                 ///< WEFT_RECORD_DIR; empty: no recordings
  const std::optional<FabricKind> only_fabric;  ///< WEFT_FABRIC; nullopt: any
  const bool cross_memory;  ///< WEFT_CROSS_MEMORY: the kernel may copy from process to process
  const bool require_gdr;   ///< WEFT_REQUIRE=gdr: no tensor on a GPU may be staged
  const std::size_t gpu_staging;  ///< WEFT_GPU_STAGING: bytes of a staged tensor's chunk
  const bool check_flow;          ///< synchronous slots run with credits, an overrun is reported
  const topology::RankPlacement placement;  ///< the fabrics' choice of a port, and the arenas' node

  /// Whether WEFT_FABRIC lets ranks be reached by this fabric.
  bool allows(FabricKind fabric) const noexcept { return !only_fabric || only_fabric == fabric; }
  /// The setting, for the verdict on another fabric.
  std::string only_fabric_text() const {
    return "WEFT_FABRIC=" + std::string(only_fabric ? name(*only_fabric) : "auto");
  }
};

/// WEFT_RECORD_DIR, if it can be used. Throws Error(bad_config).
std::string record_dir_of(const Config& config);

}  // namespace weft::p2p
