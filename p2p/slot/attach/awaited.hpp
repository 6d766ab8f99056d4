// One of several ends that a call waited for, as the call's timeout tells it.
#pragma once

#include <cstdint>
#include <string>

namespace weft::p2p {

struct Awaited {
  std::string slot;
  int peer = -1;  ///< -1: no rank has attached
  std::string host{};
  std::uint64_t sequence = 0;  ///< expected; 0: not known
  std::string lack;            ///< what the peer has not done
  bool is_put = false;         ///< the end of a put is awaited, not a tensor
};

}  // namespace weft::p2p
