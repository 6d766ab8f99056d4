// Small applications of every definition that has a gradient.
#pragma once

#include <string>
#include <vector>

#include "weft/graph.hpp"

namespace weft::dataflow::reference {

/// An input of a case.
struct Operand {
  Sizes sizes;
  int below = 0;  ///< > 0: indices below that; 0: a variable
  bool none = false;
};
inline const Operand kNone{{}, 0, true};

struct Case {
  const char* definition;
  std::vector<Operand> inputs;
  Attributes attributes{};
};

/// Each definition with a gradient occurs.
std::vector<Case> differentiable_cases();

/// The running statistics and log_prob have no gradient, and the mask is not a number.
inline bool is_differentiated(const Case& one, std::size_t output) {
  const std::string name = one.definition;
  return output == 0 || name == "LSTM" || name == "GRU" || name == "Split";
}

}  // namespace weft::dataflow::reference
