// weft-trace: shows recordings as text, or merges them into one trace.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <set>
#include <sstream>

#include "base/os/named_file.hpp"
#include "base/os/standard_output.hpp"
#include "runtime/tool/command_line.hpp"
#include "runtime/tool/trace/chrome_trace.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

std::vector<LoadedRecording> load_all(const std::vector<std::string>& paths) {
  std::vector<LoadedRecording> recordings;
  std::set<std::string> jobs;
  std::set<int> ranks;
  for (const std::string& path : paths) {
    recordings.push_back(load_recording(path));
    jobs.insert(recordings.back().job);
    if (jobs.size() > 1)
      throw Error(ErrorDetail{.code = Code::bad_argument,
                              .operation = path,
                              .message = "this recording is of job " + recordings.back().job +
                                         ", the files before it are not",
                              .hint = "merge one job's recordings at a time"});
    if (!ranks.insert(recordings.back().rank).second)
      throw Error(ErrorDetail{
          .code = Code::bad_argument,
          .operation = path,
          .message = fmt::format("there are two recordings of rank {}", recordings.back().rank),
          .hint = "give one recording of each rank"});
  }
  return recordings;
}

std::map<std::string, Alignment> align_all(const std::vector<LoadedRecording>& recordings) {
  std::vector<WallClock> clocks;
  for (const LoadedRecording& r : recordings)
    if (std::ranges::find(clocks, r.boot, &WallClock::boot) == clocks.end())
      clocks.push_back({r.boot, r.wall_offset_ns});
  return align(clocks, find_crossings(recordings));
}

void tell_alignment(const std::vector<LoadedRecording>& recordings,
                    const std::map<std::string, Alignment>& clocks) {
  std::set<std::string> told{recordings.front().boot};
  for (const LoadedRecording& r : recordings) {
    if (!told.insert(r.boot).second) continue;
    const Alignment& clock = clocks.at(r.boot);
    if (clock.by_wall_clock)
      fmt::print(stderr,
                 "weft-trace: {}'s clock is aligned by wall clocks alone: the recordings have no "
                 "messages in both directions between this host and the others\n",
                 r.host);
    else
      fmt::print(stderr, "weft-trace: {}'s clock is aligned within {:.1f} us\n", r.host,
                 static_cast<double>(clock.error_ns) / 1e3);
  }
}

void merge(const std::vector<std::string>& paths, const std::string& output) {
  const auto recordings = load_all(paths);
  const auto clocks = align_all(recordings);
  tell_alignment(recordings, clocks);
  if (output == "-") {
    write_chrome_trace(std::cout, recordings, clocks);
    std::cout.flush();
    return;
  }
  std::ostringstream text;
  write_chrome_trace(text, recordings, clocks);
  os::write_output(output, text.view(), "weft-trace");
}

void show(const std::string& path, std::size_t most) {
  const LoadedRecording r = load_recording(path);
  fmt::print("rank {} of {} (job {}, host {}, pid {})\n", r.rank, r.size,
             r.job.empty() ? "without a name" : r.job, r.host, r.pid);
  if (!r.why.empty())
    fmt::print("recorded by {}: {}\n", r.by_rank < 0 ? "a tool" : fmt::format("rank {}", r.by_rank),
               r.why);
  fmt::print("{} events, {} older ones overwritten\n", r.ring.events.size(), r.ring.overwritten);
  const auto& events = r.ring.events;
  const std::uint64_t last = events.empty() ? 0 : events.back().ended_ns;
  for (std::size_t i = events.size() - std::min(most, events.size()); i < events.size(); ++i) {
    const stats::RecordedEvent& event = events[i];
    // Relative to the last event, because the most recent events matter most.
    fmt::print("{:>14.6f} s  {:<16}",
               (static_cast<double>(event.ended_ns) - static_cast<double>(last)) / 1e9,
               stats::name(event.event));
    if (event.operation != stats::Operation::none) fmt::print(" {}", stats::name(event.operation));
    if (event.peer >= 0) fmt::print(" rank {}", event.peer);
    if (const std::string place = r.place_of(event); !place.empty()) fmt::print(" \"{}\"", place);
    if (event.value != 0 && event.value != ~std::uint64_t{0}) fmt::print(" #{}", event.value);
    if (event.bytes != 0) fmt::print(" {} bytes", event.bytes);
    if (event.event == stats::Event::node_ran) fmt::print(" thread {}", thread_of(event));
    if (event.ended_ns > event.started_ns)
      fmt::print(" took {:.6f} s", static_cast<double>(event.ended_ns - event.started_ns) / 1e9);
    if (event.code != Code::ok) fmt::print(" {}", weft::name(event.code));
    fmt::print("\n");
  }
  for (const stats::ShownWait& wait : r.waits)
    fmt::print("waiting: {} rank {} \"{}\" #{}\n", stats::name(wait.about.operation),
               wait.about.peer, r.slot_name(wait.about.slot), wait.about.sequence);
}

}  // namespace
}  // namespace weft::tool

int main(int argc, char** argv) {
  CLI::App app("Shows recordings of weft's ranks as text, or merges them into one trace.",
               "weft-trace");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  std::vector<std::string> files;
  std::string output = "trace.json";
  std::string file;
  std::size_t most = 4096;
  auto* const merge = app.add_subcommand(
      "merge", "Write one trace of all ranks, for chrome://tracing or ui.perfetto.dev");
  merge->add_option("FILES", files, "Recordings of one job, one per rank")->required();
  merge->add_option("-o,--output", output, "Output file (default: trace.json; -: standard output)");
  auto* const show = app.add_subcommand("show", "Print one rank's events as text");
  show->add_option("FILE", file, "A recording, or a file with a stats segment")->required();
  show->add_option("--last", most, "Print only the last N events (default: all)");
  app.footer(
      "Recordings are made with WEFT_RECORD_DIR, or by weft-status --record. They contain "
      "transfers "
      "only\nif the job ran with WEFT_RECORD=all.\n\n"
      "Examples:\n"
      "  weft-trace merge /var/tmp/weft-*.weft-recording -o trace.json\n"
      "  weft-trace show --last 20 weft-3281-rank2-node1-4711.weft-recording");
  try {
    app.parse(argc, argv);
    if (merge->parsed())
      weft::tool::merge(files, output);
    else
      weft::tool::show(file, most);
    weft::os::flush_output();
    return 0;
  } catch (const CLI::ParseError& error) {
    return weft::tool::end_parse(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-trace: %s\n", error.what());  // must not throw
    return weft::tool::kBadUse;
  }
}
