// weft-topo: which NIC, GPU and NUMA node belong together, and why.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "topology/tool/doctor_command.hpp"

namespace weft::topology::tool {
namespace {

constexpr int kBadInput = 2;

int run(int argc, char** argv) {
  CLI::App app("Which NIC, GPU and NUMA node of a machine belong together, and why.", "weft-topo");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);

  DoctorOptions doctor;
  doctor.colour = ::isatty(STDOUT_FILENO) != 0;
  auto* const doctor_app = app.add_subcommand(
      "doctor", "Look for what hinders ranks on this machine. Exit code 1: warnings, 3: failures");
  doctor_app->add_flag("--json", doctor.json, "Print JSON");
  doctor_app->add_option("--ranks", doctor.ranks, "How many ranks the host is to run")
      ->check(CLI::Range(1, 65536));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "weft-topo: {}; weft-topo --help lists what there is\n", error.what());
    return kBadInput;
  }
  return run_doctor(doctor);
}

}  // namespace
}  // namespace weft::topology::tool

int main(int argc, char** argv) {
  try {
    return weft::topology::tool::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft-topo: {}\n", error.what());
    return weft::topology::tool::kBadInput;
  }
}
