#include "weft/device.hpp"

#include <limits>

#include "base/fail.hpp"

namespace weft {

Memory Memory::gpu(int ordinal) {
  if (ordinal < 0 || ordinal > std::numeric_limits<std::int16_t>::max())
    throw_error(Code::bad_argument, "memory", "there is no GPU " + std::to_string(ordinal),
                "GPUs are counted from 0, as CUDA does");
  return Memory(static_cast<std::int16_t>(ordinal));
}

std::string Memory::text() const {
  if (is_host()) return "host memory";
  return is_own_gpu() ? "this rank's GPU" : "GPU " + std::to_string(place_);
}

}  // namespace weft
