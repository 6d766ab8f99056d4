// Formats the findings as text and as JSON.
#pragma once

#include <span>
#include <string>

#include "topology/doctor/finding.hpp"

namespace weft::doctor {

/// One line per finding, with its remedy below, and the number of findings per verdict at the end.
/// Findings that do not apply are included, because they answer a question, too. `colour`: ANSI
/// escapes.
std::string as_text(std::span<const Finding> findings, bool colour);

/// {"schema": "weft-doctor/1", "verdict": "warn", "findings": [{"check", "subject", "verdict",
/// "says", "fix"}]}
std::string as_json(std::span<const Finding> findings);

}  // namespace weft::doctor
