// In place of nic_paths.cpp where weft is built without RDMA.
#include "runtime/tool/gpu/nic_paths.hpp"

namespace weft::tool {

void try_nics(const GpuScene& /*scene*/, p2p::cuda::Gpus& /*gpus*/,
              const std::vector<p2p::cuda::GpuChunk>& /*chunks*/, const p2p::RankMemory& /*memory*/,
              GpuPaths& paths) {
  paths.no_nics = "this weft was built without RDMA (WEFT_VERBS)";
}

}  // namespace weft::tool
