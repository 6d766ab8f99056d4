// weft-bench fig9: loss by time of three trainings, by each way of their tensors.
#pragma once

namespace weft::bench {

/// The name of the command, and of the one that a rank runs.
inline constexpr const char* kFig9 = "fig9";

/// `arguments` begin with kFig9. Returns the exit code. Throws BadOption, or std::runtime_error if
/// weft's own runs fail; what fails of others is left out with a line on stderr.
int run_fig9(int count, char** arguments);

}  // namespace weft::bench
