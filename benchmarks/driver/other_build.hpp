// Another build of weft, whose runs alternate with this build's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/driver/launch.hpp"
#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// The weft-bench of another build. `path` names that program, the folder that contains it, or the
/// build folder with bin/weft-bench. Throws std::runtime_error, one line, unless the program is
/// there and runs `benchmark`.
std::string weft_bench_of(const std::string& path, std::string_view benchmark);

/// The rows that a run of `program` has printed. Throws std::runtime_error, one line, when the run
/// has failed or its rows have another form than this build's.
std::vector<RunRow> rows_of_other_build(const std::string& program, const Outcome& outcome);

}  // namespace weft::bench
