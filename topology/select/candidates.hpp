// Ranks all NICs from the perspective of one rank.
#pragma once

#include <vector>

#include "topology/select/select.hpp"

namespace weft::topology {

/// Fills choice.candidates (the best first) and choice.rails. `forced`: index of the only NIC
/// allowed (kNone: all NICs), and `forced_by` the reason. Returns the number of paths computed.
std::size_t rank_candidates(const Model& model, const HostRank& rank,
                            const std::vector<NicVerdict>& verdicts, int forced,
                            const std::string& forced_by, Choice& choice);

}  // namespace weft::topology
