// weft-info: shows how this weft was built, and the WEFT_* values that a job started here would
// use.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/config.hpp"
#include "base/kernels/copy.hpp"
#include "base/os/cpus.hpp"
#include "base/os/host_identity.hpp"
#include "base/os/standard_output.hpp"
#include "runtime/tool/command_line.hpp"
#include "runtime/tool/gpu/gpu_paths.hpp"
#include "runtime/tool/job_table.hpp"
#include "runtime/world/check_settings.hpp"
#include "topology/placement/place.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

#ifdef WEFT_HAS_VERBS
constexpr std::array<std::string_view, 3> kFabrics{"shm", "verbs", "tcp"};
#else
constexpr std::array<std::string_view, 2> kFabrics{"shm", "tcp"};
#endif
constexpr std::array<std::string_view, 2> kBootstraps{"pmix", "alone"};

constexpr std::string_view kSanitizer =
    std::string_view(WEFT_SANITIZER).empty() ? std::string_view("none") : WEFT_SANITIZER;

std::string_view name(SettingType type) {
  switch (type) {
    case SettingType::time:
      return "time";
    case SettingType::size:
      return "size";
    case SettingType::integer:
      return "integer";
    case SettingType::boolean:
      return "bool";
    case SettingType::choice:
      return "choice";
    case SettingType::text:
      return "text";
    case SettingType::log_levels:
      return "log";
  }
  return "unknown";
}

struct Machine {
  std::string host = os::host_identity().name;
  double cpus = os::usable_cpus();
  std::size_t stream_bytes = kernels::default_stream_bytes();
  std::string_view vector_target = kernels::vector_target();
  topology::RankPlacement placement;  ///< of a single rank started here
};

Machine look(const Config& config) {
  topology::RankOnHost own;
  own.cpus = os::numbers(os::affinity());
  Machine machine;
  machine.placement = topology::place_rank(config, own);
  return machine;
}

nlohmann::json placement_json(const topology::RankPlacement& placement) {
  return {{"nic", placement.nic.empty() ? nlohmann::json() : nlohmann::json(placement.nic)},
          {"port", placement.port},
          {"reason", placement.reason},
          {"numa", placement.numa},
          {"notes", placement.notes}};
}

nlohmann::json as_json(const Config& config, const Machine& machine) {
  auto settings = nlohmann::json::array();
  for (const auto& spec : setting_table())
    settings.push_back({{"variable", spec.variable},
                        {"type", name(spec.type)},
                        {"value", config.text(spec.setting)},
                        {"source", config.source(spec.setting)},
                        {"default", spec.fallback},
                        {"accepts", spec.accepts},
                        {"meaning", spec.meaning},
                        {"expert", spec.expert}});
  return {{"version", WEFT_VERSION},
          {"build",
           {{"type", WEFT_BUILD_TYPE}, {"compiler", WEFT_COMPILER}, {"sanitizer", kSanitizer}}},
          {"fabrics", kFabrics},
          {"bootstraps", kBootstraps},
          {"machine",
           {{"host", machine.host},
            {"usable_cpus", machine.cpus},
            {"vector_target", machine.vector_target},
            {"stream_bytes", machine.stream_bytes}}},
          {"topology", placement_json(machine.placement)},
          {"settings", std::move(settings)},
          {"warnings", config.warnings()}};
}

/// `value`, or `""` if it is empty.
std::string_view shown(std::string_view value) { return value.empty() ? "\"\"" : value; }

/// An expert setting is in the list if `all` is given or the environment sets the variable.
bool is_listed(const SettingSpec& spec, const Config& config, bool all) {
  return all || !spec.expert || config.source(spec.setting) != "default";
}

void print_settings(const Config& config, bool all) {
  std::size_t width = 0;
  std::size_t hidden = 0;
  for (const auto& spec : setting_table()) {
    if (is_listed(spec, config, all))
      width = std::max(width, shown(config.text(spec.setting)).size());
    else
      ++hidden;
  }
  for (const auto& spec : setting_table())
    if (is_listed(spec, config, all))
      fmt::print("{:<25} = {:<{}}  {}\n{:28}{}\n{:28}accepted: {}; default: {}{}\n", spec.variable,
                 shown(config.text(spec.setting)), width, config.source(spec.setting), "",
                 spec.meaning, "", spec.accepts, shown(spec.fallback),
                 spec.expert ? "; expert" : "");
  if (hidden > 0)
    fmt::print("\n{} expert settings have their defaults; weft-info --all lists them\n", hidden);
}

void print_text(const Config& config, const Machine& machine, bool all) {
  fmt::print("weft {} ({}, {}, sanitizer {})\n", WEFT_VERSION, WEFT_BUILD_TYPE, WEFT_COMPILER,
             kSanitizer);
  fmt::print("fabrics    {}\nbootstrap  {}\n", fmt::join(kFabrics, ", "),
             fmt::join(kBootstraps, ", "));
  fmt::print(
      "machine    {}: {:g} processors usable, {} vectors; puts from {} bytes on find out "
      "whether to bypass the cache\n",
      machine.host, machine.cpus, machine.vector_target, machine.stream_bytes);

  const topology::RankPlacement& placement = machine.placement;
  fmt::print("RDMA       {}\n",
             placement.nic.empty() ? "no device that topology would choose" : placement.reason);
  for (const std::string& note : placement.notes) fmt::print("{:11}{}\n", "", note);
  fmt::print("\n");
  print_settings(config, all);
  for (const auto& warning : config.warnings()) fmt::print("\nwarning: {}\n", warning);
}

void print_gpus(bool wants_json) {
  const auto config = Config::read();
  check_settings(config);
  const tool::GpuScene scene{.config = config, .placement = look(config).placement};
  const tool::GpuPaths paths = tool::try_gpu_paths(scene);
  fmt::print("{}", wants_json ? tool::json_of(paths) : tool::text_of(paths));
}

int run(bool wants_json, bool wants_all) {
  const auto config = Config::read();
  check_settings(config);
  const Machine machine = look(config);
  if (wants_json)
    fmt::print(
        "{}\n",
        as_json(config, machine).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    print_text(config, machine, wants_all);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  CLI::App app("Shows how this weft was built, and the WEFT_* values in force with their sources.",
               "weft-info");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  bool wants_json = false;
  bool wants_all = false;
  bool wants_job = false;
  bool wants_gpu = false;
  auto* const json =
      app.add_flag("--json", wants_json, "Print JSON, with the expert settings in any case");
  auto* const all =
      app.add_flag("--all", wants_all, "Print the expert settings too, which few users need");
  app.add_flag("--gpu", wants_gpu,
               "Try every path of this machine's GPUs, and print each with its reason: copies, "
               "between each two, by each NIC, and what would be staged where")
      ->excludes(all);
  app.add_flag("--job", wants_job,
               "Run as every rank of a job (mpirun ... weft-info --job): rank 0 prints as JSON "
               "over which "
               "fabric each rank reaches every other, and why")
      ->excludes(json)
      ->excludes(all)
      ->excludes("--gpu");
  try {
    app.parse(argc, argv);
    if (wants_job) {
      weft::print_job_table();
      weft::os::flush_output();
      return 0;
    }
    if (wants_gpu) {
      weft::print_gpus(wants_json);
      weft::os::flush_output();
      return 0;
    }
    const int code = weft::run(wants_json, wants_all);
    weft::os::flush_output();
    return code;
  } catch (const CLI::ParseError& error) {
    return weft::tool::end_parse(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-info: %s\n", error.what());  // must not throw
    return weft::tool::kBadUse;
  }
}
