// Which NICs may be used at all, before any rank is looked at.
#pragma once

#include <vector>

#include "topology/select/select.hpp"

namespace weft::topology {

/// As Model::nics. Ports that are down or armed go first; then those whose PCI link is sixteen
/// times narrower than another's; then Ethernet beside InfiniBand (unless Ethernet has more than
/// twice its rate in all); then what has less than half of the best rate. A NIC of unknown rate
/// counts with what its PCI link could carry, and only against itself. If `driven_only`, what weft
/// cannot drive goes last, so that such a NIC still shows that a narrower one is none for data.
std::vector<NicVerdict> judge_nics(const Model& model, bool driven_only);

}  // namespace weft::topology
