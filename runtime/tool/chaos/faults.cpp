#include "runtime/tool/chaos/faults.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weft::tool {
namespace {

using std::chrono::milliseconds;

// A slow rank runs for a fifth of the time: kRuns of every kHeld + kRuns.
constexpr milliseconds kHeld{80};
constexpr milliseconds kRuns{20};

/// Enters the rank's network namespace; in this process's own namespace the rules would cut the
/// machine off.
std::string nft_command(int pid, bool mend) {
  const std::string enter = fmt::format("nsenter --net=/proc/{}/ns/net nft ", pid);
  if (mend) return enter + "delete table inet weft_chaos";
  return enter +
         "-f - <<'RULES'\n"
         "table inet weft_chaos {\n"
         "  chain in { type filter hook input priority 0; iif != lo drop; }\n"
         "  chain out { type filter hook output priority 0; oif != lo drop; }\n"
         "}\nRULES\n";
}

bool shares_own_network(int pid) {
  struct stat own {};
  struct stat its {};
  const std::string path = fmt::format("/proc/{}/ns/net", pid);
  return ::stat("/proc/self/ns/net", &own) != 0 || ::stat(path.c_str(), &its) != 0 ||
         own.st_ino == its.st_ino;
}

}  // namespace

Chaos::Chaos(std::vector<Step> plan, JobRanks ranks, CutOptions cut, Moment began, Say say)
    : plan_(std::move(plan)),
      ranks_(std::move(ranks)),
      cut_(std::move(cut)),
      began_(began),
      say_(std::move(say)) {}

Chaos::~Chaos() {
  for (const Lasting& lasting : lasting_) end(lasting);
}

Chaos::Moment Chaos::at(double seconds) const {
  return began_ +
         std::chrono::duration_cast<Moment::duration>(std::chrono::duration<double>(seconds));
}

bool Chaos::signal(int rank, int number) {
  const auto found = ranks_.ranks.find(rank);
  if (found == ranks_.ranks.end()) return false;
  return ::syscall(SYS_pidfd_send_signal, found->second.pidfd.get(), number, nullptr, 0) == 0;
}

bool Chaos::cut(int rank, bool mend) {
  const int pid = ranks_.ranks.at(rank).pid;
  if (cut_.command.empty() && shares_own_network(pid)) {
    if (!mend) say_(fmt::format("rank {} is not cut: it is in this network namespace", rank));
    return false;
  }
  const std::string command =
      fmt::format("export CHAOS_ACTION={} CHAOS_RANK={} CHAOS_PID={}; {}", mend ? "mend" : "cut",
                  rank, pid, cut_.command.empty() ? nft_command(pid, mend) : cut_.command);
  // NOLINTNEXTLINE(concurrency-mt-unsafe,cert-env33-c): the user's own command, by one thread
  const int status = std::system(command.c_str());
  if (status != 0)
    say_(fmt::format("the command to {} rank {} failed with status {}", mend ? "reconnect" : "cut",
                     rank, status));
  return status == 0;
}

void Chaos::begin(const Step& step, Moment now) {
  const auto found = ranks_.ranks.find(step.rank);
  const std::string who = found == ranks_.ranks.end()
                              ? fmt::format("rank {}", step.rank)
                              : fmt::format("rank {} (pid {})", step.rank, found->second.pid);
  const int number = step.fault == Fault::kill ? SIGKILL : SIGSTOP;
  const bool there = step.fault == Fault::cut ? signal(step.rank, 0) : signal(step.rank, number);
  if (!there) return say_(fmt::format("{} has ended: no {}", who, name(step.fault)));
  const bool began = step.fault != Fault::cut || cut(step.rank, false);
  // A command that failed may have cut the rank off in part: it is reconnected later all the same.
  if (!began && cut_.command.empty()) return;
  if (began) say_(fmt::format("{} {}", name(step.fault), who));
  if (step.fault != Fault::kill)
    lasting_.push_back({.step = step,
                        .until = now + (at(step.for_s) - began_),
                        .stopped = step.fault != Fault::cut,
                        .next = now + kHeld});
}

void Chaos::end(const Lasting& lasting) {
  if (lasting.step.fault == Fault::cut)
    cut(lasting.step.rank, true);
  else
    (void)signal(lasting.step.rank, SIGCONT);
  say_(fmt::format("rank {}: end of {}", lasting.step.rank, name(lasting.step.fault)));
}

Chaos::Moment Chaos::keep_slow(Lasting& lasting, Moment now) {
  if (lasting.step.fault != Fault::slow) return lasting.until;
  if (now >= lasting.next) {
    lasting.stopped = !lasting.stopped;
    (void)signal(lasting.step.rank, lasting.stopped ? SIGSTOP : SIGCONT);
    lasting.next = now + (lasting.stopped ? kHeld : kRuns);
  }
  return std::min(lasting.next, lasting.until);
}

Chaos::Moment Chaos::turn(Moment now) {
  while (!plan_.empty() && at(plan_.front().at_s) <= now) {
    begin(plan_.front(), now);
    plan_.erase(plan_.begin());
  }
  Moment next = plan_.empty() ? now + std::chrono::hours(1) : at(plan_.front().at_s);
  for (auto lasting = lasting_.begin(); lasting != lasting_.end();) {
    if (now >= lasting->until) {
      end(*lasting);
      lasting = lasting_.erase(lasting);
    } else {
      next = std::min(next, keep_slow(*lasting, now));
      ++lasting;
    }
  }
  return next;
}

}  // namespace weft::tool
