// Which of a host's RDMA ports a rank takes: its nearest, and others that are as near.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "p2p/transport/verbs/device/port_choice.hpp"

namespace weft::p2p::verbs {

struct RailChoice {
  struct Further {
    std::size_t port = 0;  ///< index in the list
    GidChoice gid;
  };
  PortChoice nearest;
  std::vector<Further> further;  ///< in their order
  std::vector<std::string>
      notes;  ///< a line for each port that was meant to be taken, but can't be
};

/// The nearest port as choose_port has it, and further ones of its kind: those that WEFT_NIC names
/// besides, in this order; otherwise those that topology finds as near; if topology makes no choice
/// and WEFT_RAILS is set, the next best. At most WEFT_RAILS and kMostRails in all, and one with the
/// connection manager. A named port that can't be used is left out. Throws Error(bad_config) where
/// WEFT_NIC names a port that isn't there, or one twice.
RailChoice choose_rails(std::span<const Port> ports, const VerbsOptions& options,
                        const topology::RankPlacement& placement = {});

}  // namespace weft::p2p::verbs
