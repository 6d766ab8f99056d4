// Which of the GPUs that a process sees is its rank's.
#pragma once

#include <string>
#include <vector>

#include "p2p/transport/cuda/api/driver.hpp"

namespace weft::p2p::cuda {

/// A rank's knowledge before the driver is loaded.
struct GpuWish {
  std::string setting = "auto";  ///< WEFT_GPU
  int index = 0;                 ///< the rank's place among those of its host
  std::string pci{};             ///< the GPU that topology gives; empty: it gives none
  /// GPUs that topology takes this process to see, by PCI address, in any order.
  std::vector<std::string> visible{};
  std::string reason{};  ///< why it gives that one, or none
};

struct OwnGpu {
  int ordinal = 0;
  std::string reason;
};

/// Throws Error(bad_config) if `setting`, the value of WEFT_GPU, can name no GPU of any machine.
void check_gpu_setting(const std::string& setting);

/// The GPU that WEFT_GPU names, or that topology gives; if the process sees other GPUs than
/// topology thought, every rank takes the next of them in turn. Throws Error: bad_config (WEFT_GPU
/// names none that this process sees), system (it sees no GPU).
OwnGpu choose_own_gpu(const Driver& driver, const GpuWish& wish, const char* operation);

/// "0000:0f:00.0"; empty where the driver does not say.
std::string pci_address_of(const Driver& driver, int ordinal);
/// "NVIDIA H100 80GB HBM3"; empty where the driver does not say.
std::string device_name_of(const Driver& driver, int ordinal);
/// "GPU-5c89c6a1-...", "MIG-..." as nvidia-smi -L lists it; empty where the driver does not say.
std::string uuid_text_of(const Driver& driver, int ordinal);

}  // namespace weft::p2p::cuda
