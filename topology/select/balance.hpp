// Shares NICs among ranks that could each take several.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::topology {

/// One rank's possibilities: NICs in the order in which it likes them where nothing else decides.
struct Wish {
  std::vector<int> nics{};
};

struct Assignment {
  std::vector<int> nic{};  ///< of each wish; kNone where it has none
  std::size_t steps = 0;   ///< edges looked at
};

/// Gives every wish one of its NICs so that loads are as even as the wishes allow (an optimal
/// semi-matching: no load can be lowered by moving ranks along, so that NICs which the same ranks
/// may take differ by one at most). `card[nic]` numbers cards: among NICs with the same load the
/// one whose card has less goes first, then the wish's order. Earlier wishes choose first.
Assignment balance(const std::vector<Wish>& wishes, const std::vector<int>& card);

}  // namespace weft::topology
