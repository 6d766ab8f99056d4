// Plans as pictures.
#pragma once

#include <functional>
#include <string>

#include "weft/partition.hpp"

namespace weft::dataflow {

/// The parts and edges for Graphviz, each edge with the lines of `label`.
std::string draw(const Plan& plan, const std::function<std::string(const Edge&)>& label);
/// The edge as planned, in one line.
std::string planned_text(const Edge& edge);

}  // namespace weft::dataflow
