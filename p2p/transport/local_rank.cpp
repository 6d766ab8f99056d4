#include "p2p/transport/local_rank.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/fail.hpp"
#include "base/os/asymmetric_barrier.hpp"
#include "base/os/cpus.hpp"
#include "base/os/host_identity.hpp"
#include "base/os/system_error.hpp"
#include "base/stats/recording.hpp"
#include "p2p/memory/memory_limits.hpp"
#include "p2p/progress/fences.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

/// The file of the stats segment that no other process maps; empty: none.
std::string stats_file(const LocalRankOptions& options, const std::string& host) {
  const std::string folder = record_dir_of(options.config);
  if (folder.empty() || !options.alone_on_host || options.sleeper != nullptr) return {};
  return fmt::format("{}/{}{}", folder, stats::kStatsFileBegin,
                     stats::file_stem(options.job, options.rank, host, ::getpid()));
}

/// Nodes of graphs that records name.
constexpr std::uint32_t kNamedNodes = 4096;

stats::RecordLevel record_level(const Config& config) {
  const std::string& text = config.text(Setting::record);
  if (text == "off") return stats::RecordLevel::off;
  return text == "all" ? stats::RecordLevel::all : stats::RecordLevel::control;
}

std::shared_ptr<stats::StatsSegment> make_stats(const LocalRankOptions& options) {
  const os::HostIdentity host = os::host_identity();
  auto made = stats::StatsSegment::create(
      {.rank = options.rank,
       .size = options.size,
       .host = host.name,
       .boot = host.boot,
       .job = options.job,
       .file = stats_file(options, host.name),
       .shared = options.sleeper == nullptr,
       .nodes = record_level(options.config) == stats::RecordLevel::all ? kNamedNodes : 0,
       .may_grow = [](std::size_t bytes) { return !refusal_to_grow(bytes); }});
  if (!made->hidden_because().empty())
    options.log->warn(Subsystem::boot, "other processes can't see this rank's counters: {}",
                      made->hidden_because());
  return made;
}

os::Fd make_event() {
  os::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.get() < 0) os::throw_system_error("eventfd", "");
  return event;
}

}  // namespace

LocalRank::LocalRank(LocalRankOptions options)
    : RankSettings(options),
      RankMemory(options),
      rank(options.rank),
      size(options.size),
      log(options.log),
      mapper(options.mapper),
      stats(make_stats(options)),
      recorder(stats->ring_state(), stats->ring(), record_level(options.config)),
      waits_(stats->waits(), recorder),
      spin_(options.config.time(Setting::spin)),
      takes_part_(&mapper->fork_mark().word()),
      bell_block_(control, sizeof(Doorbell)),
      bell_event_(options.sleeper == nullptr ? make_event() : os::Fd()),
      waiter(*new (bell_block_.data()) Doorbell{}, WaitPolicy{},
             options.config.time(Setting::timeout).value(), options.sleeper),
      progress(*options.progress) {
  rejected_connections.count_in(stats->rejected_connections());
  waiter.show_on(&waits_);
  waiter.watch_slow_polls(progress.slow_helps());
}

void LocalRank::write_recording(std::string_view why, int of) noexcept {
  if (record_dir.empty() || forked()) return;
  try {
    const auto held =
        of < 0 ? std::optional(stats::StatsView::of(stats->bytes())) : pinned_peer_stats.of(of);
    if (!held) return;
    const std::string path = stats::write_recording(
        *held, record_dir, {.why = why, .by_rank = rank, .only_if_none = of >= 0});
    log->info(Subsystem::tool, "recording: {}", path);
  } catch (const std::exception& error) {
    try {
      log->warn(Subsystem::tool, "no recording of rank {}: {}", of < 0 ? rank : of, error.what());
    } catch (const std::exception&) {
      return;  // no memory even for the line
    }
  }
}

void LocalRank::end_calls() noexcept {
  static constinit const std::atomic<std::uint32_t> none{0};
  takes_part_.store(&none, std::memory_order_release);
}

Status LocalRank::refusal(const char* operation, std::string_view slot) const noexcept {
  if (!forked())
    return refuse(Code::closed, [&] {
      return ErrorDetail{.operation = operation,
                         .message = "this rank has left the job",
                         .hint = "call this before World::leave() and before the World goes",
                         .rank = rank,
                         .slot = std::string(slot)};
    });
  try {
    return Status(ErrorDetail{
        .code = Code::forked,
        .operation = operation,
        .message = fmt::format("this process is a fork of rank {}'s process: it is no rank", rank),
        .hint = "start helpers by exec or spawn, or fork them before World::join",
        .rank = rank,
        .slot = std::string(slot)});
  } catch (const std::bad_alloc&) {
    return Status(ErrorDetail{.code = Code::forked});
  }
}

void LocalRank::settle_waiting(int sharers, int local_ranks) noexcept {
  if (waiter.sleeper() != nullptr) return;
  WaitPolicy policy;
  try {
    const int processors = os::count(os::affinity());
    const auto quota = os::cpu_quota();
    if (sharers <= processors && local_ranks <= quota.value_or(local_ranks))
      policy = {.spin = WaitPolicy::kSpin, .yielding = WaitPolicy::kYielding};
  } catch (const std::exception&) {
    policy = {};  // processors unknown, or no memory: sleeping is never wrong
  }
  if (spin_) policy = {.spin = *spin_};
  policy.barrier_before_sleep = policy.spin.count() > 0 && os::joins_global_barriers();
  waiter.set_policy(policy);
  ring_needs_fence_.store(!policy.barrier_before_sleep, std::memory_order_relaxed);
}

void LocalRank::ring_with_fence() noexcept {
  if (Sleeper* sleeper = waiter.sleeper()) return sleeper->wake();
  full_barrier();
  if (!bell().ring()) return;
  const std::uint64_t one = 1;
  (void)!::write(bell_event_.get(), &one, sizeof one);
}

}  // namespace weft::p2p
