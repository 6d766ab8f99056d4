// Checks of the launchers that start ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "topology/doctor/checks.hpp"

namespace weft::doctor {
namespace {

constexpr std::size_t kLongestFile = std::size_t{1} << 20;

bool has_program(const Scene& scene, std::string_view program) {
  std::string_view path = scene.host.program_path;
  while (!path.empty()) {
    const auto folder = path.substr(0, path.find(':'));
    if (!folder.empty() && scene.files.exists(fmt::format("{}/{}", folder, program))) return true;
    path.remove_prefix(std::min(path.size(), folder.size() + 1));
  }
  return false;
}

/// Slurm's PMIx plugins, in the folders of several distributions.
std::vector<std::string> slurm_plugins(const topology::Files& files) {
  std::vector<std::string> plugins;
  for (const char* top : {"/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt/slurm/lib"}) {
    std::vector<std::string> folders{top};
    for (const auto& name : files.list(top))
      if (name.ends_with("-linux-gnu")) folders.push_back(fmt::format("{}/{}", top, name));
    for (const auto& folder : folders)
      for (const auto& name : files.list(folder)) {
        if (!name.starts_with("slurm")) continue;
        for (const auto& plugin : files.list(fmt::format("{}/{}", folder, name)))
          if (plugin.starts_with("mpi_pmix") && plugin.ends_with(".so")) plugins.push_back(plugin);
      }
  }
  std::sort(plugins.begin(), plugins.end());
  plugins.erase(std::unique(plugins.begin(), plugins.end()), plugins.end());
  return plugins;
}

/// The value of MpiDefault in slurm.conf, in lower case.
std::string slurm_default(const topology::Files& files) {
  for (const char* file : {"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf"}) {
    std::istringstream in(files.read_bytes(file, kLongestFile));
    for (std::string line; std::getline(in, line);) {
      std::transform(line.begin(), line.end(), line.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const auto equals = line.find('=');
      if (!line.starts_with("mpidefault") || equals == line.npos) continue;
      const auto value = line.substr(equals + 1);
      return value.substr(0, value.find_first_of(" \t#"));
    }
  }
  return "none";
}

}  // namespace

Findings check_pmix(const Scene& scene) {
  const auto library = scene.host.library("libpmix.so.2");
  if (!library.loaded)
    return {{.verdict = Verdict::fail,
             .says = fmt::format("libpmix.so.2 can't be loaded: {}", library.detail),
             .fix = "apt-get install libpmix2"}};
  const auto what = library.detail.empty() ? "libpmix.so.2 loads" : library.detail;
  std::vector<std::string> launchers;
  for (const char* program : {"mpirun.openmpi", "mpirun", "prterun", "srun"})
    if (has_program(scene, program)) launchers.emplace_back(program);
  if (launchers.empty())
    return {{.verdict = Verdict::warn,
             .says = what + "; no launcher is in PATH (mpirun, prterun, srun)",
             .fix = "apt-get install openmpi-bin, or slurm-client"}};
  return {{.verdict = Verdict::ok,
           .says = fmt::format("{}; launchers: {}", what, fmt::join(launchers, ", "))}};
}

Findings check_slurm(const Scene& scene) {
  if (!has_program(scene, "srun")) return {{.says = "Slurm is not in PATH"}};
  const auto plugins = slurm_plugins(scene.files);
  if (plugins.empty())
    return {{.verdict = Verdict::fail,
             .says = "Slurm has no plugin for PMIx (mpi_pmix*.so), so srun refuses --mpi=pmix",
             .fix = "install Slurm's PMIx plugin (Debian: slurm-wlm-basic-plugins), or build Slurm "
                    "--with-pmix"}};
  const auto has = fmt::format("Slurm has {}", fmt::join(plugins, ", "));
  const auto library = scene.host.library("libpmix.so");
  if (!library.loaded)
    return {
        {.verdict = Verdict::fail,
         .says =
             fmt::format("{}, which loads libpmix.so without a version: {}", has, library.detail),
         .fix =
             "apt-get install libpmix-dev, or link libpmix.so to libpmix.so.2 in the same folder, "
             "on every node"}};
  const auto chosen = slurm_default(scene.files);
  if (!chosen.starts_with("pmix"))
    return {{.verdict = Verdict::warn,
             .says = fmt::format("{} and libpmix.so; MpiDefault is {}, so srun needs --mpi=pmix",
                                 has, chosen),
             .fix = "MpiDefault=pmix in slurm.conf, or srun --mpi=pmix"}};
  return {{.verdict = Verdict::ok,
           .says = fmt::format("{} and libpmix.so; MpiDefault={}", has, chosen)}};
}

}  // namespace weft::doctor
