// Runs a plan's parts as ranks that take turns in random order, with slots as the plan says.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/dataflow/kernels.hpp"
#include "weft/partition.hpp"

namespace weft::dataflow::reference {

/// A kernel of a test's own definition.
using OwnKernels = std::map<std::string, std::function<void(Call&)>>;

struct Run {
  /// The feed's value in a step.
  std::function<Array(const Node& feed, int step)> feed;
  /// A variable's first value.
  std::function<Array(const Node& variable)> variable;
  OwnKernels own{};
  int steps = 1;
  std::uint64_t seed = 0;  ///< of the order of nodes
};

/// "<fetch>#<step>" to elements.
using Fetched = std::map<std::string, std::vector<double>>;

/// Throws std::runtime_error if no node can run, a static send without credits overwrites a tensor
/// that is still read, or a shape differs from the plan's.
Fetched interpret(const Plan& plan, const Run& run);

}  // namespace weft::dataflow::reference
