#include "p2p/transport/cuda/api/mps.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace weft::p2p::cuda {

bool runs_under_mps(const Driver& driver, int ordinal) {
  int enabled = 0;
  if (driver.device_attribute(&enabled, kMpsEnabled, ordinal) == DriverStatus::success)
    return enabled != 0;
  const char* const named = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string folder = named == nullptr ? "/tmp/nvidia-mps" : named;
  return ::access((folder + "/control").c_str(), F_OK) == 0;
}

}  // namespace weft::p2p::cuda
