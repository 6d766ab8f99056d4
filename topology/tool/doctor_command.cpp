#include "topology/tool/doctor_command.hpp"

#include <fmt/format.h>

#include "topology/doctor/checks.hpp"
#include "topology/doctor/report.hpp"

namespace weft::topology::tool {

int run_doctor(const DoctorOptions& options) {
  const doctor::Host host = doctor::live_host();
  const auto findings = doctor::examine(host, options.ranks);
  if (options.json)
    fmt::print("{}\n", doctor::as_json(findings));
  else
    fmt::print("{}", doctor::as_text(findings, options.colour));
  return doctor::exit_code(findings);
}

}  // namespace weft::topology::tool
