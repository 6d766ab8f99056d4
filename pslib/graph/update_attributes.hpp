// An update rule as attributes of a node.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weft/definition.hpp"
#include "weft/optimizer.hpp"

namespace weft::pslib {

/// All numbers are f32, which a double holds exactly.
std::vector<dataflow::AttributeSpec> update_attribute_specs();
dataflow::Attributes update_attributes(const Optimizer& optimizer, const Schedule& schedule);

/// A rule that was read from attributes.
struct GraphRule {
  Optimizer optimizer;  ///< a user rule's object is missing
  Schedule schedule;
  std::string user_rule;  ///< Rule::text() of a user rule
  std::size_t states = 0;
};
/// Throws Error(bad_argument) for an unknown rule or an invalid constant.
GraphRule rule_in(const dataflow::Attributes& attributes);

}  // namespace weft::pslib
