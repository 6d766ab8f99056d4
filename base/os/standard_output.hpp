// The standard output of tools.
#pragma once

namespace weft::os {

/// Writes what stdout still holds. Throws Error(system) if that fails, or a write before it has
/// failed: a tool's exit status must tell that its output is incomplete.
void flush_output();

}  // namespace weft::os
