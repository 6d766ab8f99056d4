#include "p2p/transport/verbs/device/budget.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

namespace weft::p2p::verbs {
namespace {

constexpr unsigned kCapIpcLock = 14;
/// PROC_USER_INIT_INO: the inode of the first user namespace, in every kernel.
constexpr std::uint64_t kInitialUserNamespace = 0xEFFFFFFD;

constexpr std::uint64_t kSendEntry = 128;
constexpr std::uint64_t kReceiveEntry = 16;

bool in_initial_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/user", &info) == 0 && info.st_ino == kInitialUserNamespace;
}

}  // namespace

const char* const kRaiseLockedMemory =
    "raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity in the unit that starts the job, or "
    "--ulimit memlock=-1 for the container";

LockedMemory parse_locked_memory(const std::string& status, std::uint64_t limit,
                                 bool initial_namespace) {
  LockedMemory memory;
  memory.limit = limit;
  std::istringstream in(status);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::uint64_t number = 0;
    if (key == "CapEff:" && words >> std::hex >> number)
      memory.exempt = initial_namespace && ((number >> kCapIpcLock) & 1U) != 0;
    else if (key == "VmLck:" && words >> number)
      memory.locked = number * 1024;
    else if (key == "VmPin:" && words >> number)
      memory.pinned = number * 1024;
  }
  return memory;
}

LockedMemory locked_memory() {
  rlimit limit{};
  std::uint64_t bytes = LockedMemory::kUnlimited;
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = limit.rlim_cur;
  std::ifstream file("/proc/self/status");
  std::ostringstream status;
  status << file.rdbuf();
  return parse_locked_memory(status.str(), bytes, in_initial_namespace());
}

std::string LockedMemory::text() const {
  const std::string used = fmt::format("{} bytes are pinned and {} locked", pinned, locked);
  if (limit == kUnlimited) return fmt::format("RLIMIT_MEMLOCK is unlimited, {}", used);
  return fmt::format("RLIMIT_MEMLOCK is {} bytes{}, {}", limit,
                     exempt ? " but does not bind (CAP_IPC_LOCK)" : "", used);
}

RegistrationNeed need_of_peers(std::uint64_t peers, std::uint64_t queue_pairs,
                               std::uint64_t depth) {
  RegistrationNeed need;
  need.queue_pairs = peers * queue_pairs;
  need.queue_bytes = need.queue_pairs * depth * (kSendEntry + kReceiveEntry);
  return need;
}

std::optional<Shortfall> shortfall(const RegistrationNeed& need, const DeviceLimits& device,
                                   const LockedMemory& memory) {
  const std::uint64_t pinned = need.bytes + need.queue_bytes;
  if (pinned > memory.left())
    return Shortfall{fmt::format("{} bytes are to be registered ({} of arenas, {} of queues): {}",
                                 pinned, need.bytes, need.queue_bytes, memory.text()),
                     kRaiseLockedMemory};
  if (need.regions > device.max_regions)
    return Shortfall{fmt::format("{} regions are to be registered, and the device allows {}",
                                 need.regions, device.max_regions),
                     "raise WEFT_ARENA_CHUNK, so that there are fewer and larger ones"};
  if (need.largest_region > device.max_region_bytes)
    return Shortfall{fmt::format("a region of {} bytes is to be registered, and the device allows "
                                 "{}",
                                 need.largest_region, device.max_region_bytes),
                     "lower WEFT_ARENA_CHUNK"};
  if (need.queue_pairs > device.max_queue_pairs)
    return Shortfall{
        fmt::format("{} queue pairs are needed, and the device allows {}", need.queue_pairs,
                    device.max_queue_pairs),
        "lower WEFT_QPS_PER_PEER, or WEFT_MESH_EAGER so that paths are made when needed"};
  if (need.completions > device.max_completions)
    return Shortfall{fmt::format("a completion queue of {} entries is needed, and the device "
                                 "allows {}",
                                 need.completions, device.max_completions),
                     "lower WEFT_QUEUE_DEPTH, or raise WEFT_CQS"};
  return std::nullopt;
}

}  // namespace weft::p2p::verbs
