// weft-chaos: starts a job and injects faults into its ranks, by a seed.
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "runtime/tool/chaos/faults.hpp"
#include "runtime/tool/chaos/launched.hpp"
#include "runtime/tool/command_line.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{20};

struct Wanted {
  PlanOptions plan;
  CutOptions cut;
  double find_s = 60;
  std::vector<std::string> command;
};

std::uint64_t random_number() {
  std::uint64_t number = 0;
  (void)!::getrandom(&number, sizeof number, 0);
  return number;
}

/// Writes each line with one write(), so that the job's own lines never fall inside it.
void say(const std::string& what) {
  const std::string line = "weft-chaos: " + what + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

double seconds_since(Clock::time_point moment) {
  return std::chrono::duration<double>(Clock::now() - moment).count();
}

void check(Wanted& wanted) {
  if (wanted.plan.within_s < wanted.plan.after_s)
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "--within",
                            .message = fmt::format("{} s is before --after, {} s",
                                                   wanted.plan.within_s, wanted.plan.after_s)});
  const bool cuts = std::ranges::find(wanted.plan.faults, Fault::cut) != wanted.plan.faults.end();
  if (cuts && wanted.cut.command.empty() && !wanted.cut.by_nft)
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "--cut",
                            .message = "no way to cut a rank off is given",
                            .hint =
                                "give --cut-command COMMAND, or --cut-by-nft for ranks in network "
                                "namespaces of their own"});
  if (wanted.cut.by_nft && ::geteuid() != 0)
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "--cut-by-nft",
                            .message = "only root can change the rules of a network namespace"});
  if (wanted.plan.faults.empty()) wanted.plan.faults = {Fault::kill};
}

/// Waits until all ranks are found, and returns those found after `seconds`.
JobRanks await_ranks(Launched& job, const std::string& mark, double seconds) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  for (;;) {
    JobRanks found = find_ranks(mark);
    if (found.complete() || Clock::now() >= until || job.wait_until(Clock::now() + kLook))
      return found;
  }
}

int run(Wanted wanted) {
  const std::string mark = fmt::format("{:016x}", random_number());
  say(fmt::format("--seed {} repeats this", wanted.plan.seed));
  Launched job(wanted.command, mark);
  const auto started = Clock::now();
  JobRanks ranks = await_ranks(job, mark, wanted.find_s);
  const auto began = Clock::now();
  std::optional<int> status = job.wait_until(began);
  if (ranks.ranks.empty()) {
    say(status ? "the job ended before any of its ranks was found"
               : fmt::format("no rank of the job was found in {} s: start it with a launcher that "
                             "weft knows (mpirun, srun)",
                             wanted.find_s));
    while (!status) status = job.wait_until(Clock::now() + std::chrono::minutes(1));
    return *status;
  }
  if (!ranks.complete())
    say(fmt::format("only {} of {} ranks are on this machine: the others get no faults",
                    ranks.ranks.size(), ranks.size));
  if (wanted.plan.size == 0) wanted.plan.size = ranks.size;
  if (wanted.plan.size == 0) wanted.plan.size = ranks.ranks.rbegin()->first + 1;
  const std::vector<Step> plan = make_plan(wanted.plan);
  for (const Step& step : plan) say("plan: " + text(step));
  {
    Chaos chaos(plan, std::move(ranks), wanted.cut, began, [&](const std::string& what) {
      say(fmt::format("{:.3f} s: {}", seconds_since(began), what));
    });
    while (!status) status = job.wait_until(chaos.turn(Clock::now()));
  }
  say(fmt::format("the job ended with status {} after {:.3f} s", *status, seconds_since(started)));
  return *status;
}

void add_options(CLI::App& app, Wanted& wanted) {
  auto& plan = wanted.plan;
  plan.seed = random_number() % 1'000'000'000;
  app.add_option("--seed", plan.seed, "Seed of the plan; the same seed gives the same plan");
  const auto fault = [&](const char* flag, Fault what, const char* text) {
    app.add_flag_callback(
        flag, [&plan, what] { plan.faults.push_back(what); }, text);
  };
  fault("--kill", Fault::kill, "Kill ranks (SIGKILL); the default if no fault is named");
  fault("--stop", Fault::stop, "Stop ranks and continue them later (SIGSTOP, SIGCONT)");
  fault("--slow", Fault::slow, "Let ranks run for a fifth of the time only");
  fault("--cut", Fault::cut, "Cut ranks off from the network for a while");
  app.add_option("--times", plan.count, "Number of faults (default: 1)")
      ->check(CLI::Range(1, 10000));
  app.add_option("--after", plan.after_s,
                 "Earliest fault, in seconds after all ranks run (default: 1)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--within", plan.within_s,
                 "Latest fault, in seconds after all ranks run (default: 10)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--for", plan.for_s,
                 "Duration of a stop, slowness or cut, in seconds (default: 0.5 to 3, by seed)")
      ->check(CLI::PositiveNumber);
  app.add_option("--ranks", plan.ranks, "Only these ranks, such as 1,3")
      ->delimiter(',')
      ->allow_extra_args(false)  // or it would take the "--" before the command
      ->check(CLI::NonNegativeNumber);
  app.add_option("--cut-command", wanted.cut.command,
                 "Shell command that cuts a rank off, run with CHAOS_ACTION=cut, later with "
                 "CHAOS_ACTION=mend, and with CHAOS_RANK and CHAOS_PID");
  app.add_flag(
      "--cut-by-nft", wanted.cut.by_nft,
      "Cut a rank off by dropping every packet in its network namespace, which must differ "
      "from this one (root)");
  app.add_option("--find", wanted.find_s, "Time to look for the ranks, in seconds (default: 60)")
      ->check(CLI::PositiveNumber);
  app.add_option("command", wanted.command, "The job: mpirun and its arguments")->required();
}

}  // namespace
}  // namespace weft::tool

int main(int argc, char** argv) {
  CLI::App app(
      "Starts a job and injects faults into its ranks, to test how the job reacts. Touches only "
      "the "
      "processes of that job. Exits with the job's status, or with 2 on wrong usage.",
      "weft-chaos");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  weft::tool::Wanted wanted;
  weft::tool::add_options(app, wanted);
  app.footer(
      "Examples:\n"
      "  weft-chaos --kill -- mpirun --enable-recovery -n 4 ./trainer\n"
      "  weft-chaos --seed 7 --stop --slow --times 5 --within 60 -- mpirun -n 8 ./trainer\n"
      "  weft-chaos --cut --cut-command './link.sh $CHAOS_ACTION' -- mpirun -n 2 ./trainer");
  try {
    app.parse(argc, argv);
    weft::tool::check(wanted);
    return weft::tool::run(std::move(wanted));
  } catch (const CLI::ParseError& error) {
    return weft::tool::end_parse(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-chaos: %s\n", error.what());  // must not throw
    return weft::tool::kBadUse;
  }
}
