#include "runtime/tool/status/find_jobs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "base/fail.hpp"
#include "base/os/fd.hpp"
#include "base/stats/recording.hpp"
#include "runtime/tool/plain_text.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

namespace fs = std::filesystem;
using FileId = std::pair<dev_t, ino_t>;

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool names_a_stats_file(std::string_view target) {
  if (target.starts_with("/memfd:weft-status")) return true;
  const auto slash = target.rfind('/');
  return slash != target.npos && target.substr(slash + 1).starts_with(stats::kStatsFileBegin);
}

bool names_a_table(std::string_view target) { return target.starts_with("/memfd:weft-table"); }

/// Limits of what is read, per process (descriptors) and per user (segments, bytes, ranks).
constexpr int kMostDescriptors = 1 << 16;
constexpr int kMostSegments = 4096;
constexpr std::size_t kMostBytes = 256 << 20;
constexpr int kMostRanks = 1 << 16;

struct ProcessStatus {
  int own = 0;     ///< the process's pid in its own pid namespace
  uid_t user = 0;  ///< the effective one
  bool stopped = false;
};

ProcessStatus status_of_process(int pid) {
  ProcessStatus found{.own = pid};
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:\t")) {
      // Stopped by a signal (T) or a debugger (t).
      found.stopped = line[7] == 'T' || line[7] == 't';
    } else if (line.starts_with("Uid:\t")) {
      std::istringstream users(line.substr(5));
      users >> found.user >> found.user;
    } else if (line.starts_with("NSpid:")) {
      const auto last = line.find_last_of("\t ");
      found.own = number_in(std::string_view(line).substr(last + 1)).value_or(pid);
    }
  }
  return found;
}

/// The parent of a process; 0: there is none, or it has ended.
int parent_of(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:\t")) return number_in(std::string_view(line).substr(6)).value_or(0);
  return 0;
}

/// Whether `pid` began by way of `ancestor`, such as its launcher.
bool descends(int pid, int ancestor) {
  constexpr int kMostParents = 64;  // parents may change while they are read
  for (int i = 0; i < kMostParents && pid > 0; ++i, pid = parent_of(pid))
    if (pid == ancestor) return true;
  return false;
}

std::string names(std::span<const FoundJob* const> jobs) {
  std::string text;
  for (const FoundJob* const job : jobs) text += (text.empty() ? "" : ", ") + job->id;
  return text;
}

class Scan {
 public:
  Search run() {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/proc", none))
      if (const auto pid = number_in(entry.path().filename().native())) look_at(*pid);
    sort_into_jobs();
    return std::move(search_);
  }

 private:
  void look_at(int pid) {
    const std::string folder = fmt::format("/proc/{}/fd", pid);
    const std::unique_ptr<DIR, int (*)(DIR*)> files(::opendir(folder.c_str()), ::closedir);
    if (!files) {
      if (errno == EACCES) ++search_.hidden;
      return;
    }
    std::optional<ProcessStatus> process;
    for (int looked = 0; looked < kMostDescriptors; ++looked) {
      const dirent* const entry = ::readdir(files.get());
      if (entry == nullptr) break;
      const std::string path = fmt::format("{}/{}", folder, entry->d_name);
      std::array<char, 512> target{};
      if (::readlink(path.c_str(), target.data(), target.size() - 1) <= 0) continue;
      const bool is_table = names_a_table(target.data());
      if (!is_table && !names_a_stats_file(target.data())) continue;
      if (!process) process = status_of_process(pid);
      if (is_table)
        take_table(path, pid, *process);
      else
        take(path, pid, *process);
    }
  }

  /// True for a regular file (a memfd is one) that belongs to the process's own user. Files of
  /// other users are not trusted.
  static bool is_own(const struct stat& about, const ProcessStatus& process) {
    return S_ISREG(about.st_mode) && about.st_uid == process.user;
  }

  /// Opens the file; returns no descriptor if it is not the process's own or the user's limits are
  /// exceeded.
  os::Fd open_own(const std::string& path, const ProcessStatus& process, struct stat& about) {
    if (::stat(path.c_str(), &about) != 0 || !is_own(about, process)) return {};
    os::Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file || ::fstat(file.get(), &about) != 0 || !is_own(about, process)) return {};
    Taken& taken = taken_[process.user];
    if (++taken.files > kMostSegments || taken.bytes > kMostBytes) return {};
    return file;
  }

  void take_table(const std::string& path, int pid, const ProcessStatus& process) {
    struct stat about {};
    const os::Fd file = open_own(path, process, about);
    if (!file) return;
    try {
      if (stats::TableView table = stats::TableView::open(file))
        tables_[pid].push_back(std::move(table));
    } catch (const Error&) {
      ++search_.unknown;
    }
  }

  void take(const std::string& path, int pid, const ProcessStatus& process) {
    struct stat about {};
    if (::stat(path.c_str(), &about) != 0 || !is_own(about, process)) return;
    auto known = stats_segments_.find({about.st_dev, about.st_ino});
    if (known == stats_segments_.end()) {
      const os::Fd file = open_own(path, process, about);
      if (!file) return;
      const FileId id{about.st_dev, about.st_ino};
      try {
        known = stats_segments_.emplace(id, FoundRank{stats::StatsView::copy_of(file)}).first;
        taken_[process.user].bytes += known->second.stats.bytes();
      } catch (const Error&) {
        if (refused_.insert(id).second) ++search_.unknown;
        return;
      }
    }
    known->second.user = process.user;
    if (known->second.stats.identity().pid != process.own) return;
    known->second.pid = pid;
    known->second.stopped = process.stopped;
  }

  void sort_into_jobs() {
    std::map<std::pair<uid_t, std::string>, FoundJob> jobs;
    for (auto& [_, rank] : stats_segments_) {
      const stats::SegmentIdentity& identity = rank.stats.identity();
      std::string id = plain(identity.job.data());
      if (id.empty())
        id = identity.size == 1 ? fmt::format("pid-{}", identity.pid)
                                : fmt::format("unnamed-{}", identity.size);
      FoundJob& job = jobs[{rank.user, id}];
      job.id = id;
      job.user = rank.user;
      job.size = std::max(job.size, identity.size);
      if (rank.pid != 0) take_tables_of(rank);
      add(job, std::move(rank));
    }
    for (auto& [_, job] : jobs) {
      // Living ranks of a job keep a dead rank's stats segment; a job without living ranks is over.
      if (std::ranges::none_of(job.ranks, [](const FoundRank& rank) { return rank.pid != 0; }))
        continue;
      int& ranks = taken_[job.user].ranks;
      if (job.size > kMostRanks - ranks) continue;
      ranks += job.size;
      std::ranges::sort(job.ranks, {}, [](const FoundRank& r) { return r.stats.identity().rank; });
      search_.jobs.push_back(std::move(job));
    }
  }

  void take_tables_of(FoundRank& rank) {
    for (stats::TableView& table : tables_[rank.pid])
      if (table && table.page().rank == rank.stats.identity().rank)
        rank.tables.push_back(std::move(table));
  }

  /// A process may have joined more than once: its newest world counts. A living rank takes
  /// precedence over a dead one.
  static void add(FoundJob& job, FoundRank rank) {
    const stats::SegmentIdentity& mine = rank.stats.identity();
    for (FoundRank& other : job.ranks) {
      const stats::SegmentIdentity& its = other.stats.identity();
      if (its.rank != mine.rank) continue;
      const bool is_newer = its.start_unix_ns < mine.start_unix_ns;
      const bool lives = rank.pid != 0;
      if ((other.pid != 0) == lives ? is_newer : lives) other = std::move(rank);
      return;
    }
    job.ranks.push_back(std::move(rank));
  }

  Search search_;
  std::map<FileId, FoundRank> stats_segments_;
  std::map<int, std::vector<stats::TableView>> tables_;  // by pid
  std::set<FileId> refused_;
  struct Taken {
    int files = 0;
    std::size_t bytes = 0;
    int ranks = 0;
  };
  std::map<uid_t, Taken> taken_;  // by user
};

}  // namespace

Search find_jobs() { return Scan().run(); }

const FoundJob& choose_job(const Search& search, const std::string& wanted) {
  const auto pid = number_in(wanted);
  // Another user may give a job the name of one of this user's jobs.
  for (const FoundJob& job : search.jobs)
    if (job.id == wanted && job.user == ::geteuid()) return job;
  for (const FoundJob& job : search.jobs) {
    if (job.id == wanted) return job;
    for (const FoundRank& rank : job.ranks)
      if (pid && rank.pid == *pid) return job;
  }
  std::vector<const FoundJob*> all;
  std::vector<const FoundJob*> started;
  for (const FoundJob& job : search.jobs) {
    all.push_back(&job);
    const auto is_below = [&](const FoundRank& rank) {
      return rank.pid != 0 && descends(rank.pid, *pid);
    };
    if (pid && std::ranges::any_of(job.ranks, is_below)) started.push_back(&job);
  }
  if (started.size() == 1) return *started.front();
  if (!started.empty())
    throw_error(Code::bad_argument, "--job",
                fmt::format("process {} has started the ranks of {} jobs", wanted, started.size()),
                fmt::format("name one of them: {}", names(started)));
  std::string why = fmt::format("no job on this host is called {}", wanted);
  if (pid && fs::exists(fmt::format("/proc/{}", *pid)))
    why += ", and the process with that pid is no rank and has started none here";
  else if (pid)
    why += ", and there is no process with that pid";
  throw_error(Code::bad_argument, "--job", std::move(why),
              all.empty() ? no_job_text(search) : fmt::format("there are: {}", names(all)));
}

std::string no_job_text(const Search& search) {
  std::string text = "no weft job of this user runs on this host";
  if (search.hidden > 0)
    text +=
        fmt::format("; {} processes belong to other users: run as root to see them", search.hidden);
  if (search.unknown > 0)
    text += fmt::format("; {} stats segments are of another version of weft", search.unknown);
  return text;
}

}  // namespace weft::tool
