// In place of load.cpp in a weft that was built without GPU tensors.
#include "base/fail.hpp"
#include "p2p/transport/cuda/api/load.hpp"

namespace weft::p2p::cuda {

std::string error_text(const Driver&, DriverStatus status) {
  return "error " + std::to_string(static_cast<unsigned>(status));
}

Status load_driver_from(const char*, Driver&) {
  return Status(error_detail(Code::system, "load CUDA", "this weft was built without GPU tensors",
                             "build it with -DWEFT_CUDA=AUTO"));
}

const Driver* driver_in_use() { return nullptr; }

Result<const Driver*> load_driver() {
  Driver unused;
  return load_driver_from("", unused);
}

}  // namespace weft::p2p::cuda
