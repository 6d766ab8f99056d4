#include "benchmarks/driver/programs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "base/os/cpus.hpp"
#include "benchmarks/driver/hosts.hpp"
#include "benchmarks/driver/launch.hpp"
#include "benchmarks/driver/results.hpp"

namespace weft::bench {
namespace {

std::filesystem::path own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::optional<std::vector<std::string>> open_mpi_launcher() {
  const auto program = find_program({"mpirun.openmpi", "mpirun"});
  if (!program) return std::nullopt;
  std::vector<std::string> words{*program};
  if (::geteuid() == 0 && flags_for_hosts(2).empty()) words.emplace_back("--allow-run-as-root");
  return words;
}

std::optional<std::vector<std::string>> mpich_launcher() {
  const auto program = find_program({"mpirun.mpich", "mpiexec.mpich"});
  if (!program) return std::nullopt;
  return std::vector<std::string>{*program};
}

}  // namespace

unsigned processors() { return std::max(1U, static_cast<unsigned>(os::usable_cpus())); }

bool is_weft(const Program& program) { return program.name == "weft" || program.name == kAgainst; }

bool has_core_per_rank(int ranks) { return processors() >= static_cast<unsigned>(ranks); }

// Both families of launchers pin rank 0 to the first core and rank 1 to the second on request.
std::vector<std::string> command(const Program& program, const Ranks& ranks,
                                 const std::vector<std::string>& rest) {
  const bool is_mpich = program.name == "mpich";
  std::vector<std::string> words = program.launcher;
  words.insert(words.end(), {"-n", std::to_string(ranks.count)});
  if (const auto hosts = flags_for_hosts(ranks.count); !hosts.empty() && !is_mpich) {
    words.insert(words.end(), hosts.begin(), hosts.end());
    // Open MPI between hosts: TCP, which this benchmark measures, and shared memory within a host.
    if (!is_weft(program))
      words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"});
    // It doesn't see that these hosts share processors, and its waits would hold up its own ranks.
    if (!is_weft(program) && ranks.crowded)
      words.insert(words.end(), {"--mca", "mpi_yield_when_idle", "1"});
  } else {
    if (!ranks.pinned && !is_mpich) words.emplace_back("--oversubscribe");
    words.insert(words.end(),
                 {is_mpich ? "-bind-to" : "--bind-to", ranks.pinned ? "core" : "none"});
  }
  words.push_back(program.executable);
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

Program weft_program() {
  const auto launcher = open_mpi_launcher();
  if (!launcher) throw std::runtime_error("no mpirun on PATH; install openmpi-bin (./dev setup)");
  return {.name = "weft", .launcher = *launcher, .executable = own_path().string()};
}

std::optional<Program> peer_program(const std::string& name) {
  const auto executable = own_path().parent_path() / ("peer-" + name);
  const auto launcher = name == "mpich" ? mpich_launcher() : open_mpi_launcher();
  if (!launcher || !std::filesystem::exists(executable)) {
    fmt::print(stderr, "left out: {}: {} (./dev bench installs the peers and builds them)\n", name,
               launcher ? executable.string() + " was not built" : "no launcher on PATH");
    return std::nullopt;
  }
  return Program{.name = name,
                 .launcher = *launcher,
                 .executable = executable.string(),
                 .has_threads = name == "gloo" || name == "grpc" || name == "zeromq"};
}

}  // namespace weft::bench
