// Control messages about a rank's membership in the job.
#pragma once

#include "p2p/transport/ending.hpp"

namespace weft::p2p {

struct LeavingMessage {
  static constexpr MessageType kType = MessageType::leaving;
  MessageType type = kType;
  Cause cause;
  std::uint32_t gpu_works = 0;  ///< 1: a GPU of its may still write into memory of the peer
};

}  // namespace weft::p2p
