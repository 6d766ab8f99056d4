// Checks of the limits of the process and the host.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/os/cgroup.hpp"
#include "topology/doctor/bytes_text.hpp"
#include "topology/doctor/checks.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::doctor {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// A rank starts with 2 MiB of control arena, and takes its first chunk of 2 MiB with its first
// tensor.
constexpr std::uint64_t kFirstArenas = 4 * kMiB;
// Includes the rings of queue pairs and completion queues for a typical number of peers.
constexpr std::uint64_t kFirstPinned = 32 * kMiB;

// Version 1 of control groups expresses "no limit" as a number near 2^63.
constexpr long kNoLimit = 1L << 60;

/// The limit of a control group, and the part that is unused.
struct MemoryLeft {
  std::uint64_t limit = 0;
  std::uint64_t left = 0;
};

std::optional<MemoryLeft> memory_left(const std::filesystem::path& root) {
  const topology::Files anywhere("");
  const auto number = [&](const std::filesystem::path& file) {
    return anywhere.read_number(file.string());
  };
  std::optional<MemoryLeft> least;
  for (const auto& group : os::own_cgroups("memory", root)) {
    auto limit = number(group / "memory.max");
    auto used = number(group / "memory.current");
    if (!limit) limit = number(group / "memory.limit_in_bytes");
    if (!used) used = number(group / "memory.usage_in_bytes");
    if (!limit || *limit < 0 || *limit > kNoLimit) continue;
    const auto bytes = static_cast<std::uint64_t>(*limit);
    const auto taken = static_cast<std::uint64_t>(used.value_or(0));
    const MemoryLeft here{bytes, bytes > taken ? bytes - taken : 0};
    if (!least || here.left < least->left) least = here;
  }
  return least;
}

std::uint64_t meminfo(const std::string& text, std::string_view field) {
  const auto at = text.find(std::string(field) + ":");
  if (at == text.npos) return 0;
  std::string_view rest = std::string_view(text).substr(at + field.size() + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return static_cast<std::uint64_t>(std::max(
      0L, topology::parse_whole(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0)));
}

/// Returns the choice in brackets: "always within_size advise [never] deny force" gives "never".
std::string bracketed(const std::string& choices) {
  const auto open = choices.find('[');
  const auto close = choices.find(']');
  if (open == choices.npos || close == choices.npos || close < open) return choices;
  return choices.substr(open + 1, close - open - 1);
}

}  // namespace

Findings check_memlock(const Scene& scene) {
  const Host& host = scene.host;
  if (scene.rdma.empty()) return {{.says = "no RDMA device is here, so nothing has to be locked"}};
  if (host.may_lock)
    return {{.verdict = Verdict::ok, .says = "CAP_IPC_LOCK: RLIMIT_MEMLOCK does not bind"}};
  if (host.memlock.soft == Limit::kNone)
    return {{.verdict = Verdict::ok, .says = "RLIMIT_MEMLOCK is unlimited"}};
  const std::string raise =
      host.memlock.hard > host.memlock.soft
          ? fmt::format("`ulimit -l {}` in the script that starts the ranks",
                        host.memlock.hard == Limit::kNone ? "hard" : "$(ulimit -Hl)")
          : "LimitMEMLOCK=infinity in the unit that starts the job (sshd, slurmd), "
            "/etc/security/limits.conf, or --ulimit memlock=-1 for the container";
  const bool too_small = host.memlock.soft < kFirstPinned;
  return {{.verdict = too_small ? Verdict::fail : Verdict::warn,
           .says = fmt::format("RLIMIT_MEMLOCK is {}; {}", bytes_text(host.memlock.soft),
                               too_small ? fmt::format("a rank registers {} to begin with",
                                                       bytes_text(kFirstPinned))
                                         : "all that a rank registers with a NIC must fit"),
           .fix = raise}};
}

Findings check_memfd(const Scene& scene) {
  if (const int error = scene.host.try_memfd(); error != 0) {
    const bool noexec = scene.files.read("/proc/sys/vm/memfd_noexec") == "2";
    return {{.verdict = Verdict::fail,
             .says = fmt::format("no memory can be shared with other ranks: memfd_create: {}",
                                 std::strerror(error)),
             .fix = noexec ? "sysctl vm.memfd_noexec=1"
                           : "allow memfd_create in the container's seccomp profile; raise "
                             "`ulimit -n` if descriptors are used up"}};
  }
  const auto limit = scene.host.file_size.soft;
  if (limit == Limit::kNone)
    return {{.verdict = Verdict::ok, .says = "memory can be shared; RLIMIT_FSIZE is unlimited"}};
  return {{.verdict = limit < kFirstArenas ? Verdict::fail : Verdict::warn,
           .says = fmt::format("RLIMIT_FSIZE is {}, and binds shared memory too: a rank's first "
                               "chunk takes {}",
                               bytes_text(limit), bytes_text(kFirstArenas - 2 * kMiB)),
           .fix = "`ulimit -f unlimited` in the script that starts the ranks"}};
}

Findings check_shm(const Scene& scene) {
  const auto room = scene.host.room("/dev/shm");
  const std::string others = "weft does not use it, but NCCL and MPI do";
  if (!room || room->free_bytes < kMiB)
    return {{.verdict = Verdict::fail,
             .says = room
                         ? fmt::format("/dev/shm is full ({}); {}", bytes_text(room->bytes), others)
                         : fmt::format("there is no /dev/shm; {}", others),
             .fix = room ? "remove what dead jobs left in /dev/shm; --shm-size=8g for a container"
                         : "mount -t tmpfs tmpfs /dev/shm"}};
  // 64 MiB is the default of container engines.
  const bool small = room->free_bytes <= 64 * kMiB;
  return {{.verdict = small ? Verdict::warn : Verdict::ok,
           .says = fmt::format("/dev/shm has {} free of {}; {}", bytes_text(room->free_bytes),
                               bytes_text(room->bytes), others),
           .fix = small ? "--shm-size=8g (or --ipc=host) for the container; mount -o "
                          "remount,size=8g /dev/shm on a host"
                        : ""}};
}

Findings check_memory(const Scene& scene) {
  const auto group = memory_left(scene.host.root);
  const auto info = scene.files.read("/proc/meminfo").value_or("");
  const auto available = meminfo(info, "MemAvailable") * 1024;
  if (!group && available == 0) return {{.says = "/proc/meminfo can't be read"}};
  const bool by_group = group && (available == 0 || group->left < available);
  const auto left = by_group ? group->left : available;
  const auto need = kFirstArenas * static_cast<std::uint64_t>(scene.ranks);
  const auto verdict = left < need ? Verdict::fail : left < 4 * need ? Verdict::warn : Verdict::ok;
  const auto what = by_group ? fmt::format("the control group of {} leaves {}",
                                           bytes_text(group->limit), bytes_text(left))
                             : fmt::format("{} are available", bytes_text(left));
  return {{.verdict = verdict,
           .says = fmt::format("{}; {} for {} rank{} to begin with", what, bytes_text(need),
                               scene.ranks, scene.ranks == 1 ? "" : "s"),
           .fix = verdict == Verdict::ok ? ""
                  : by_group
                      ? "raise memory.max (--memory of a container, --mem of Slurm), or lower "
                        "WEFT_ARENA_CHUNK"
                      : "start fewer ranks, or lower WEFT_ARENA_CHUNK"}};
}

Findings check_huge_pages(const Scene& scene) {
  const auto file = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  const auto choices = scene.files.read(file);
  const auto info = scene.files.read("/proc/meminfo").value_or("");
  const auto idle = meminfo(info, "HugePages_Free") * meminfo(info, "Hugepagesize");
  const auto total = meminfo(info, "MemTotal");
  if (total > 0 && idle * 2 > total)
    return {{.verdict = Verdict::warn,
             .says = fmt::format("{} of {} are reserved as huge pages and unused; arenas can't use "
                                 "them",
                                 bytes_text(idle * 1024), bytes_text(total * 1024)),
             .fix = "lower vm.nr_hugepages: arenas take transparent huge pages"}};
  if (!choices) return {{.says = fmt::format("{} can't be read", file)}};
  const auto choice = bracketed(*choices);
  const auto says = fmt::format("transparent huge pages for shared memory: {}", choice);
  if (choice == "deny")
    return {{.verdict = Verdict::fail,
             .says = says + ", also for programs that ask for them",
             .fix = fmt::format("as root: echo advise > {}", file)}};
  if (choice == "never")
    return {{.verdict = Verdict::warn,
             .says = says + ": arenas are made of 4 KiB pages",
             .fix = fmt::format("as root: echo advise > {}", file)}};
  return {{.verdict = Verdict::ok, .says = says}};
}

Findings check_cpus(const Scene& scene) {
  const double cpus = scene.host.cpus;
  const auto says = fmt::format("{:g} processor{} usable by {} rank{}{}", cpus,
                                cpus == 1 ? "" : "s", scene.ranks, scene.ranks == 1 ? "" : "s",
                                scene.ranks_told ? "" : " (set another number with --ranks)");
  if (cpus >= scene.ranks) return {{.verdict = Verdict::ok, .says = says}};
  const bool starved = cpus * 2 < scene.ranks;
  return {{.verdict = starved ? Verdict::fail : Verdict::warn,
           .says = says + (starved ? ": ranks wait for their turn most of the time"
                                   : ": waits can't spin, so small transfers take longer"),
           .fix =
               "start fewer ranks; give the job more processors (--cpus-per-task of Slurm, --cpus "
               "of a container, --bind-to none of mpirun)"}};
}

}  // namespace weft::doctor
