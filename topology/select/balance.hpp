// Distributes NICs among ranks that could each use several.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::topology {

/// The possible NICs of one rank, in its order of preference if nothing else decides.
struct Wish {
  std::vector<int> nics{};
};

struct Assignment {
  std::vector<int> nic{};  ///< for each wish; kNone if the wish is empty
  std::size_t steps = 0;   ///< edges visited
};

/// Assigns to every wish one of its NICs so that loads are as even as possible (an optimal
/// semi-matching: moving ranks along cannot lower any load, so that NICs that the same ranks may
/// use differ by at most one). `card[nic]` is the number of the NIC's card: among NICs of equal
/// load, the one whose card has the lower load is preferred, then the order of the wish. Earlier
/// wishes choose first.
Assignment balance(const std::vector<Wish>& wishes, const std::vector<int>& card);

}  // namespace weft::topology
