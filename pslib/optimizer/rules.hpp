// What a table is told about its updates: whether it makes sense, and in words.
#pragma once

#include <string>

#include "weft/pslib.hpp"

namespace weft::pslib {

/// Throws Error(bad_argument) for a constant with which the rule or its schedule makes no sense, or
/// for options that don't go together, naming it, its value and what is accepted.
void check(const TableOptions& options);

/// The rule and its constants, as users read them: "adam(learning_rate 0.001, beta1 0.9, ...)".
std::string text(const Optimizer& optimizer);
/// "bsp", "ssp(staleness 3)", ...
std::string text(const Consistency& consistency);
/// "none", "int8", "top_k(ratio 0.01)".
std::string text(const Compression& compression);
/// One item a line: the rule, then what else is not at its default.
std::string text(const TableOptions& options);

/// The rule's name without its constants.
std::string rule_name(const Optimizer& optimizer);

/// Arrays of state that the rule keeps, as large as the parameters.
std::size_t states(const Optimizer& optimizer) noexcept;

}  // namespace weft::pslib
