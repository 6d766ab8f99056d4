#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/os/fork_mark.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

class AloneBootstrap final : public Bootstrap {
 public:
  std::string_view name() const noexcept override { return "alone"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int local_size() const noexcept override { return 1; }
  int local_rank() const noexcept override { return 0; }
  void put(std::span<const std::byte> value) override { value_.assign(value.begin(), value.end()); }
  void fence(Deadline) override {}
  std::vector<std::byte> get(int) override { return value_; }

 private:
  std::vector<std::byte> value_;
};

bool launched_by_pmix() { return std::getenv("PMIX_NAMESPACE") != nullptr; }

int number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

/// Throws if a launcher without PMIx started this process; the hint says how to use PMIx.
void refuse_other_launchers() {
  struct Launcher {
    const char* variable;
    const char* what;
    const char* fix;
  };
  constexpr Launcher launchers[] = {
      {"PMI_SIZE", "a launcher that speaks PMI, not PMIx (MPICH's mpirun?)",
       "start the job with Open MPI's mpirun (on Debian: mpirun.openmpi)"},
      {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun without PMIx", "use an Open MPI built with PMIx"},
      {"SLURM_NTASKS", "srun without PMIx",
       "start the job with srun --mpi=pmix, or set WEFT_ADDR and what belongs to it"}};
  for (const Launcher& launcher : launchers) {
    if (number_from(launcher.variable) <= 1) continue;
    if (std::string_view(launcher.variable) == "SLURM_NTASKS" &&
        std::getenv("SLURM_PROCID") == nullptr)
      continue;
    throw Error(ErrorDetail{
        .code = Code::bootstrap,
        .operation = "join",
        .message = fmt::format("started by {} ({}={})", launcher.what, launcher.variable,
                               std::getenv(launcher.variable)),
        .hint = fmt::format("{}; or set WEFT_BOOTSTRAP=alone if each process is to be a world of "
                            "one",
                            launcher.fix)});
  }
}

/// Throws in a fork of a rank: the launcher knows only one rank by this environment, and the state
/// of the PMIx library belongs to the parent.
void refuse_fork_of_a_rank() {
  static const os::ForkMark first_to_join;
  if (first_to_join.forked())
    throw Error(
        ErrorDetail{.code = Code::forked,
                    .operation = "join",
                    .message = "this process is a fork of a rank and is not a rank itself",
                    .hint = "start helpers by exec or spawn, or fork them before World::join"});
}

}  // namespace

std::unique_ptr<Bootstrap> make_alone_bootstrap() { return std::make_unique<AloneBootstrap>(); }

std::unique_ptr<Bootstrap> join_by_token(const Config& config, std::string_view token) {
  refuse_fork_of_a_rank();
  return make_token_bootstrap(config, token);
}

std::unique_ptr<Bootstrap> choose_bootstrap(const Config& config) {
  const std::string& chosen = config.text(Setting::bootstrap);
  // A setting may be missing, which make_token_bootstrap() reports instead of guessing.
  const bool has_place = !config.text(Setting::addr).empty() || config.integer(Setting::rank) ||
                         config.integer(Setting::size);
  if (chosen == "alone") return make_alone_bootstrap();
  if (chosen == "auto" && has_place && launched_by_pmix())
    throw Error(ErrorDetail{
        .code = Code::bad_config,
        .operation = "join",
        .message = "WEFT_RANK, WEFT_SIZE or WEFT_ADDR is set, and a launcher that speaks PMIx "
                   "started this process",
        .hint = "unset them, or choose with WEFT_BOOTSTRAP=pmix or WEFT_BOOTSTRAP=token"});
  if (chosen == "token" || (chosen == "auto" && has_place)) return join_by_token(config, {});
  if (chosen == "pmix" || launched_by_pmix()) {
    refuse_fork_of_a_rank();
    return make_pmix_bootstrap();
  }
  refuse_other_launchers();
  return make_alone_bootstrap();
}

}  // namespace weft
