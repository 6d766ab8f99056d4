// The paths of this machine's GPUs, each tried.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "topology/placement/rank_placement.hpp"

namespace weft::p2p::verbs {
class Verbs;
}

namespace weft::tool {

/// Whether something works, and why not, or how.
struct Finding {
  bool works = false;
  std::string says{};
};

struct GpuFacts {
  int ordinal = 0;
  std::string uuid{};
  std::string name{};
  std::string pci{};
  std::size_t free = 0;  ///< bytes
  std::size_t total = 0;
  Finding opened{};        ///< if not, nothing else was tried
  Finding exported{};      ///< its memory, to other processes
  Finding gpudirect{};     ///< as its driver says
  Finding dma_buf{};       ///< of its memory
  Finding stream_words{};  ///< streams wait for the processor
  Finding copy{};          ///< host, GPU, host: the page came back
};

/// Copies by one GPU into the memory of another, which another process may have.
struct GpuPairPath {
  int writer = 0;
  int owner = 0;
  Finding mapped{};
};

struct NicPath {
  std::string nic{};  ///< its port, "mlx5_0:1"
  int gpu = -1;       ///< -1: the NIC itself can't be used
  std::string way{};  ///< "gpudirect" or "staged"
  std::string registered_by{};
  std::string flush{};  ///< as WEFT_GPU_FLUSH has it
  std::string reason{};
};

struct GpuPaths {
  std::string none{};    ///< why there is no GPU; empty: there is one
  std::string driver{};  ///< its version, "12.4"
  int own = -1;          ///< this process's GPU
  std::string own_reason{};
  Finding kernels{};  ///< by which GPUs carry out collectives: weft's own, built or not
  int staging = -1;   ///< NUMA node of the host memory that tensors go through; -1: any
  std::string staging_reason{};
  std::vector<GpuFacts> gpus{};
  std::vector<GpuPairPath> pairs{};
  std::vector<NicPath> nics{};
  std::string no_nics{};  ///< why there is no NIC to try
};

/// The machine and the settings, as a job started here finds them.
struct GpuScene {
  Config config;
  topology::RankPlacement placement{};
  std::shared_ptr<p2p::verbs::Verbs> verbs{};  ///< null: the machine's own library
};

/// Loads the driver, opens every GPU, and tries each path as the library does for a job. Takes
/// seconds at most for a path. Throws Error(bad_config) if WEFT_GPU names no GPU that is here.
GpuPaths try_gpu_paths(const GpuScene& scene);

std::string text_of(const GpuPaths& paths);
std::string json_of(const GpuPaths& paths);

}  // namespace weft::tool
