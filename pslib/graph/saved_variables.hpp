// The variables of an executor as a checkpoint has them.
#pragma once

#include <span>
#include <vector>

#include "pslib/checkpoint/checkpoint.hpp"
#include "weft/executor.hpp"

namespace weft::pslib {

/// Those of a rank's part, by name. Throws Error(bad_argument) for a name that no file can have.
std::vector<SavedVariable> variables_of(const dataflow::Part& part);

/// The manifest of all ranks' variables, by name.
Manifest manifest_of(const dataflow::Plan& plan, std::uint64_t step);

/// Reads `variables` into the executor's memory. Throws Error: mismatch with file and variable,
/// system.
void restore_variables(const Checkpoint& from, std::span<const SavedVariable> variables,
                       dataflow::Executor& executor);

}  // namespace weft::pslib
