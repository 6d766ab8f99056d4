// All NICs as one rank sees them, in order.
#pragma once

#include <vector>

#include "topology/select/select.hpp"

namespace weft::topology {

/// Fills choice.candidates (the best first) and choice.rails. `forced`: the only NIC that counts
/// (an index; kNone: all do) and why the others don't. Returns how many paths were looked at.
std::size_t rank_candidates(const Model& model, const HostRank& rank,
                            const std::vector<NicVerdict>& verdicts, int forced,
                            const std::string& forced_by, Choice& choice);

}  // namespace weft::topology
