// weft-status: shows the jobs on this host, read from the stats segments of their ranks.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/os/standard_output.hpp"
#include "base/stats/recording.hpp"
#include "runtime/tool/command_line.hpp"
#include "runtime/tool/status/print_status.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

constexpr int kNoJob = 1;

constexpr double kShortestPause = 0.01;
constexpr double kDay = 24 * 60 * 60;

/// Accepts `least` to a day. CLI::Range would accept "nan".
CLI::Validator seconds_from(double least) {
  return CLI::Validator(
      [least](std::string& text) {
        double seconds = 0;
        const bool is_number = CLI::detail::lexical_cast(text, seconds);
        return is_number && seconds >= least && seconds <= kDay
                   ? std::string()
                   : fmt::format("{} is no number of seconds from {:g} to {:g}", text, least, kDay);
      },
      "SECONDS");
}

struct Wanted {
  std::string job;
  std::string folder;
  bool json = false;
  double every = 0;
  double least = 0.1;
};

/// The jobs to show. Throws Error if the requested job does not exist.
std::vector<const FoundJob*> chosen(const Search& search, const Wanted& wanted) {
  if (!wanted.job.empty()) return {&choose_job(search, wanted.job)};
  std::vector<const FoundJob*> all;
  for (const FoundJob& job : search.jobs) all.push_back(&job);
  return all;
}

int record(const Wanted& wanted) {
  const Search search = find_jobs();
  const auto jobs = chosen(search, wanted);
  if (jobs.empty()) {
    fmt::print(stderr, "weft-status: {}\n", no_job_text(search));
    return kNoJob;
  }
  for (const FoundJob* job : jobs)
    for (const FoundRank& rank : job->ranks)
      fmt::print("{}\n", stats::write_recording(rank.stats, wanted.folder,
                                                {.why = "weft-status --record"}));
  os::flush_output();
  return 0;
}

void print_json(const std::vector<JobStatus>& jobs) {
  auto all = nlohmann::ordered_json::array();
  for (const JobStatus& job : jobs) all.push_back(status_json(job));
  const nlohmann::ordered_json whole = {{"schema", "weft-status/1"}, {"jobs", std::move(all)}};
  fmt::print("{}\n", whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int show(const Wanted& wanted) {
  std::vector<JobStatus> before;
  auto looked = std::chrono::steady_clock::now();
  for (;;) {
    const Search search = find_jobs();
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - looked).count();
    std::vector<JobStatus> jobs;
    for (const FoundJob* job : chosen(search, wanted))
      jobs.push_back(status_of(*job, wanted.least));
    if (wanted.every > 0 && !wanted.json && ::isatty(STDOUT_FILENO) != 0)
      fmt::print("\033[H\033[2J");
    if (wanted.json) {
      print_json(jobs);
    } else {
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const auto old = std::ranges::find_if(before, [&](const JobStatus& job) {
          return job.id == jobs[i].id && job.user == jobs[i].user;
        });
        fmt::print("{}{}", i == 0 ? "" : "\n",
                   status_text(jobs[i], old == before.end() ? nullptr : &*old, seconds));
      }
    }
    if (jobs.empty()) fmt::print(stderr, "weft-status: {}\n", no_job_text(search));
    os::flush_output();
    if (wanted.every <= 0) return jobs.empty() ? kNoJob : 0;
    before = std::move(jobs);
    looked = now;
    std::this_thread::sleep_for(std::chrono::duration<double>(wanted.every));
  }
}

}  // namespace
}  // namespace weft::tool

int main(int argc, char** argv) {
  CLI::App app(
      "Shows the weft jobs on this host: each rank's state, the operations that it has started and "
      "completed, who waits for whom, and who is late. The ranks take no part in it, so they may "
      "be "
      "stopped or dead.",
      "weft-status");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  weft::tool::Wanted wanted;
  app.add_flag("--json", wanted.json, "Print JSON");
  app.add_option("--watch", wanted.every, "Repeat every N seconds (default: 1)")
      ->expected(0, 1)
      ->default_str("1")
      ->check(weft::tool::seconds_from(weft::tool::kShortestPause));
  app.add_option("--job", wanted.job, "Only this job: its id, or the pid of mpirun or a rank");
  app.add_option("--least", wanted.least,
                 "Ignore waits shorter than this, in seconds (default: 0.1)")
      ->check(weft::tool::seconds_from(0));
  app.add_option("--record", wanted.folder,
                 "Write a recording of each rank into this folder, for weft-trace")
      ->check(CLI::ExistingDirectory);
  app.footer(
      "Ranks of other hosts are shown as their peers on this host know them.\n"
      "Exit status: 0, a job was shown; 1, there is no job; 2, wrong usage.\n\n"
      "Examples:\n"
      "  weft-status                      once\n"
      "  weft-status --watch 0.5 --job 4711\n"
      "  weft-status --record /var/tmp && weft-trace merge /var/tmp/*.weft-recording -o "
      "trace.json");
  try {
    app.parse(argc, argv);
    return wanted.folder.empty() ? weft::tool::show(wanted) : weft::tool::record(wanted);
  } catch (const CLI::ParseError& error) {
    return weft::tool::end_parse(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-status: %s\n", error.what());  // must not throw
    return weft::tool::kBadUse;
  }
}
