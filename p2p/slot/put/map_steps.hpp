// How far a writer is with mapping the buffers of an owner's slot, where it does not wait for that.
#pragma once

#include <cstdint>

#include "p2p/transport/cuda/gpu_way.hpp"

namespace weft::p2p {

struct MapSteps {
  enum class Step : std::uint8_t {
    begins,
    writes,  ///< the page that proves the path
    reads,   ///< it back
    asks,    ///< the owner whether its GPU sees it
    settled
  };
  Step step = Step::begins;
  std::uint64_t nonce = 0;
  cuda::GpuWay way = cuda::GpuWay::unproven;
};

}  // namespace weft::p2p
