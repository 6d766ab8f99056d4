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
#include "weft/error.hpp"

namespace weft::tool {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBadUse = 2;
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

/// One write a line: the job's own lines come between, not within.
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
                            .message = "it does not say how to cut a rank off",
                            .hint = "--cut-command COMMAND, or --cut-by-nft for ranks in network "
                                    "namespaces of their own"});
  if (wanted.cut.by_nft && ::geteuid() != 0)
    throw Error(ErrorDetail{.code = Code::bad_argument,
                            .operation = "--cut-by-nft",
                            .message = "only root changes a network namespace's rules"});
  if (wanted.plan.faults.empty()) wanted.plan.faults = {Fault::kill};
}

/// Every rank, or those that are there when the time is up.
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
    say(status ? "the job ended before any rank of it was seen"
               : fmt::format("no rank of the job was seen in {} s: is its launcher one that weft "
                             "knows (mpirun, srun)?",
                             wanted.find_s));
    while (!status) status = job.wait_until(Clock::now() + std::chrono::minutes(1));
    return *status;
  }
  if (!ranks.complete())
    say(fmt::format("only {} of {} ranks are on this machine: the others are spared",
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
  app.add_option("--seed", plan.seed, "Decides everything; the same one gives the same plan");
  const auto fault = [&](const char* flag, Fault what, const char* text) {
    app.add_flag_callback(
        flag, [&plan, what] { plan.faults.push_back(what); }, text);
  };
  fault("--kill", Fault::kill, "Kill ranks (SIGKILL); this is done if nothing else is asked for");
  fault("--stop", Fault::stop, "Stop ranks and let them go on (SIGSTOP, SIGCONT)");
  fault("--slow", Fault::slow, "Let ranks run a fifth of the time");
  fault("--cut", Fault::cut, "Cut ranks off from the network for a while");
  app.add_option("--times", plan.count, "How many faults (default: 1)")
      ->check(CLI::Range(1, 10000));
  app.add_option("--after", plan.after_s,
                 "The first one comes so many seconds after all ranks run (default: 1)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--within", plan.within_s, "The last one comes by then (default: 10)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--for", plan.for_s,
                 "How many seconds a stop, slowness or cut lasts (default: 0.5 to 3, by seed)")
      ->check(CLI::PositiveNumber);
  app.add_option("--ranks", plan.ranks, "Only these ranks, such as 1,3")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--cut-command", wanted.cut.command,
                 "How to cut: a shell command, run with CHAOS_ACTION=cut, later mend, and with "
                 "CHAOS_RANK and CHAOS_PID");
  app.add_flag("--cut-by-nft", wanted.cut.by_nft,
               "How to cut: drop every packet in the rank's network namespace, which must be "
               "another than this one (root)");
  app.add_option("--find", wanted.find_s,
                 "How long to look for the ranks, in seconds (default: 60)")
      ->check(CLI::PositiveNumber);
  app.add_option("command", wanted.command, "The job: mpirun and what follows it")->required();
}

}  // namespace
}  // namespace weft::tool

int main(int argc, char** argv) {
  CLI::App app(
      "Starts a job and injects faults into its ranks, to see how the job takes it. Touches no "
      "process but the job's. Ends with the job's exit status; 2, bad use.",
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
    return app.exit(error) == 0 ? 0 : weft::tool::kBadUse;
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft-chaos: {}\n", error.what());
    return weft::tool::kBadUse;
  }
}
