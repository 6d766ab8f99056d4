// The subcommand weft-topo doctor.
#pragma once

#include <optional>

namespace weft::topology::tool {

struct DoctorOptions {
  std::optional<int> ranks;
  bool json = false;
  bool colour = false;
};

/// Prints the findings about this machine; returns the exit code.
int run_doctor(const DoctorOptions& options);

}  // namespace weft::topology::tool
