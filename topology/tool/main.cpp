// weft-topo: shows which NIC, GPU and NUMA node belong together, and why.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>

#include "base/os/standard_output.hpp"
#include "topology/parse/numbers.hpp"
#include "topology/tool/doctor_command.hpp"
#include "topology/tool/show_command.hpp"

namespace weft::topology::tool {
namespace {

constexpr int kBadInput = 2;
constexpr int kMostRanks = 65536;

/// COLUMNS, else the terminal's width, else (a file, a pipe) that of a page of text.
std::size_t columns_of_output() {
  constexpr std::size_t kPage = 80;
  const char* const asked = std::getenv("COLUMNS");
  if (const auto columns = parse_whole(asked == nullptr ? "" : asked); columns && *columns > 0)
    return static_cast<std::size_t>(*columns);
  ::winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kPage;
}

/// Uses colours only if the output is a terminal.
render::TextStyle style_of_output() {
  return {.colour = ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr,
          .width = columns_of_output()};
}

void add_forms(CLI::App& app, ShowOptions& show) {
  auto* const forms = app.add_option_group(
      "Forms", "Form of the output; default: a matrix, or a list where a matrix is too wide");
  forms->require_option(0, 1);
  const auto add = [&](const char* flag, Form form, const char* about) {
    forms->add_flag_callback(
        flag, [&show, form] { show.form = form; }, about);
  };
  add("--tree", Form::tree, "Packages, NUMA nodes, switches and devices");
  add("--nics", Form::ranking, "All NICs for each GPU and NUMA node, the best first, with reasons");
  add("--json", Form::json, "JSON, with the source of each fact");
  add("--dot", Form::dot, "A graph for Graphviz");
  add("--svg", Form::svg, "A picture");
  add("--nccl-xml", Form::nccl_xml, "A topology file for NCCL (NCCL_TOPO_FILE)");
  add("--mooncake", Form::mooncake, "Mooncake's topology matrix");
  const auto add_pair = [&](const char* flag, Form form, const char* names, const char* about) {
    forms
        ->add_option_function<std::vector<std::string>>(
            flag,
            [&show, form](const std::vector<std::string>& two) {
              show.form = form;
              show.names = two;
            },
            about)
        ->expected(2)
        ->type_name(names);
  };
  add_pair("--explain", Form::explain, "GPU NIC", "The path between two devices, and the verdict");
  add_pair("--diff", Form::diff, "A B",
           "The differences of two machines: files, or `live`. Exit code 1 if there are any");
}

int run(int argc, char** argv) {
  CLI::App app(
      "Shows which NIC, GPU and NUMA node of a machine belong together, and why. Without --input "
      "it "
      "shows this machine (as WEFT_TOPO_FILE has it, if set). WEFT_NIC, WEFT_GPU_NIC and "
      "WEFT_GDR_LEVEL "
      "count as in a job. Exit code 2: wrong usage, unreadable input, or output that can't be "
      "written.",
      "weft-topo");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(0, 1);

  ShowOptions show;
  show.style = style_of_output();
  app.add_option(
         "--input", show.input,
         "Read a machine from a file (- for standard input): XML of hwloc (lstopo) or NCCL, "
         "or JSON of weft-topo")
      ->type_name("FILE");
  app.add_option("--ranks", show.ranks, "Show the choices for N ranks")
      ->check(CLI::Range(1, kMostRanks))
      ->type_name("N");
  app.add_option(
         "--gdr-level", show.gdr_level,
         "The farthest class with GPUDirect: PIX, PXB (default), PHB (or poster), ..., never")
      ->type_name("CLASS");
  app.add_flag("--all", show.style.all,
               "Show the paths between GPUs and NICs that can't be used in the matrix, too");
  app.add_option("--width", show.style.width,
                 "Columns that text may take; a wider matrix becomes a list; 0: no limit (default: "
                 "COLUMNS, or the terminal's width, or 80)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  add_forms(app, show);
  const std::map<std::string, render::Theme> themes{{"auto", render::Theme::automatic},
                                                    {"light", render::Theme::light},
                                                    {"dark", render::Theme::dark}};
  app.add_option_function<std::string>(
         "--theme", [&](const std::string& theme) { show.theme = themes.at(theme); },
         "Theme of --svg: auto (the viewer's preference), light or dark")
      ->check(CLI::IsMember({"auto", "light", "dark"}).description(""))
      ->type_name("THEME");

  DoctorOptions doctor;
  doctor.colour = show.style.colour;
  auto* const doctor_app = app.add_subcommand(
      "doctor", "Find what hinders ranks on this machine. Exit code 1: warnings, 3: failures");
  doctor_app->add_flag("--json", doctor.json, "Print JSON");
  doctor_app->add_option("--ranks", doctor.ranks, "Number of ranks that the host is to run")
      ->check(CLI::Range(1, kMostRanks))
      ->type_name("N");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "weft-topo: %s; see weft-topo --help\n", error.what());
    return kBadInput;
  }
  return *doctor_app ? run_doctor(doctor) : run_show(show);
}

}  // namespace
}  // namespace weft::topology::tool

int main(int argc, char** argv) {
  try {
    const int code = weft::topology::tool::run(argc, argv);
    weft::os::flush_output();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-topo: %s\n", error.what());  // must not throw
    return weft::topology::tool::kBadInput;
  }
}
