// Checks a table's update options and formats them as text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "weft/pslib.hpp"

namespace weft::pslib {

/// Throws Error(bad_argument) for an invalid constant of the rule or its schedule, or for options
/// that exclude each other. The error names the option, its value and the accepted values.
void check(const TableOptions& options);

/// The rule and its constants for users: "adam(learning_rate 0.001, beta1 0.9, ...)".
std::string text(const Optimizer& optimizer);
/// "bsp", "ssp(staleness 3)", ...
std::string text(const Consistency& consistency);
/// "none", "int8", "top_k(ratio 0.01)".
std::string text(const Compression& compression);
/// One item per line: the rule, then every option that is not at its default.
std::string text(const TableOptions& options);

/// The rule's name without constants.
std::string rule_name(const Optimizer& optimizer);

/// The rule or schedule of that name; none for another name.
std::optional<Optimizer::Kind> rule_named(std::string_view name) noexcept;
std::optional<Schedule::Kind> schedule_named(std::string_view name) noexcept;
std::string_view name(Schedule::Kind kind) noexcept;

/// Number of state arrays of the rule; each is as large as the parameters.
std::size_t states(const Optimizer& optimizer) noexcept;

}  // namespace weft::pslib
