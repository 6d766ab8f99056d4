// Judges which NICs may be used at all, independent of ranks.
#pragma once

#include <vector>

#include "topology/select/select.hpp"

namespace weft::topology {

/// Returns verdicts indexed like Model::nics. Removes, in this order: ports known not to be active;
/// NICs whose PCI link is 16 times narrower than another's; Ethernet if there is InfiniBand (or
/// InfiniBand, if Ethernet has more than twice its total rate); NICs with less than half of the
/// best rate. A NIC of unknown rate counts with the rate of its PCI link, and only against itself.
/// With `driven_only`, NICs that weft cannot drive are removed last, so that such a NIC still shows
/// that a slower one is not meant for data.
std::vector<NicVerdict> judge_nics(const Model& model, bool driven_only);

}  // namespace weft::topology
