// What the doctor found, for people and for programs.
#pragma once

#include <span>
#include <string>

#include "topology/doctor/finding.hpp"

namespace weft::doctor {

/// A line for each finding, below it what to do; then how many there are of each verdict. What does
/// not apply is told too: "nothing to see" is an answer. `colour`: ANSI escapes.
std::string as_text(std::span<const Finding> findings, bool colour);

/// {"schema": "weft-doctor/1", "verdict": "warn", "findings": [{"check", "subject", "verdict",
/// "says", "fix"}]}
std::string as_json(std::span<const Finding> findings);

}  // namespace weft::doctor
