// The CUDA driver of this machine.
#pragma once

#include <string>

#include "p2p/transport/cuda/api/driver.hpp"
#include "weft/error.hpp"

namespace weft::p2p::cuda {

/// The oldest driver that has all functions, as cuDriverGetVersion() counts: 12.0.
inline constexpr int kOldestDriver = 12000;

/// libcuda.so.1, loaded and initialised when first asked for; one for the process, never unloaded.
/// The pointer is valid until the process ends. The Status says why there is none, with
/// Code::system: not installed, too old, a function is missing, no GPU is visible, the driver
/// refuses to start, or weft was built without GPU tensors (WEFT_CUDA). The first outcome, good or
/// bad, is kept. Makes no context. Thread-safe.
Result<const Driver*> load_driver();

/// The driver if this process has loaded it already, weft or its application; null otherwise, and
/// where load_driver() fails. Loads nothing. Thread-safe.
const Driver* driver_in_use();

/// As load_driver() from another file, each time anew; the functions go to `driver`. Thread-safe.
Status load_driver_from(const char* file, Driver& driver);

/// An error as people look it up: "CUDA_ERROR_OUT_OF_MEMORY (out of memory)", or "error 4711" if
/// the driver doesn't know it.
std::string error_text(const Driver& driver, DriverStatus status);

}  // namespace weft::p2p::cuda
