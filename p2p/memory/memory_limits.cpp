#include "p2p/memory/memory_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/os/cgroup.hpp"

namespace weft::p2p {
namespace {

namespace fs = std::filesystem;

std::optional<std::size_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::size_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // absent, or "max"
}

std::optional<std::size_t> machine_available() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("MemAvailable:", 0) != 0) continue;
    std::istringstream words(line.substr(13));
    std::size_t kib = 0;
    if (words >> kib) return kib * 1024;
  }
  return std::nullopt;
}

/// Bytes of the cgroup `group` that the kernel reclaims before it kills a process, from
/// memory.stat.
std::size_t reclaimable_in(const fs::path& group) {
  std::ifstream in(group / "memory.stat");
  std::size_t total = 0;
  std::size_t bytes = 0;
  for (std::string key; in >> key >> bytes;)
    if (key == "active_file" || key == "inactive_file") total += bytes;
  return total;
}

std::optional<std::string> cgroup_refusal(std::size_t bytes) {
  for (const fs::path& group : os::own_cgroups("memory")) {
    auto limit = number_in(group / "memory.max");
    auto current = number_in(group / "memory.current");
    if (!limit) limit = number_in(group / "memory.limit_in_bytes");  // cgroup version 1
    if (!current) current = number_in(group / "memory.usage_in_bytes");
    if (!limit || !current) continue;
    const std::size_t used = *current - std::min(*current, reclaimable_in(group));
    if (used > *limit || bytes > *limit - used)
      return fmt::format("the cgroup {} allows {} bytes and {} are in use", group.string(), *limit,
                         used);
  }
  return std::nullopt;
}

std::optional<std::string> rlimit_refusal(std::size_t bytes) {
  rlimit limit{};
  // A file larger than RLIMIT_FSIZE raises SIGXFSZ, which ends the process by default.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur)
    return fmt::format("RLIMIT_FSIZE is {} bytes (ulimit -f)", limit.rlim_cur);
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const auto pages = number_in("/proc/self/statm");
    const std::size_t used = pages.value_or(0) * 4096;
    if (used + bytes > limit.rlim_cur)
      return fmt::format("RLIMIT_AS is {} bytes, of which {} are in use (ulimit -v)",
                         limit.rlim_cur, used);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refusal_to_grow(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / 2)
    return fmt::format("{} bytes are more than any machine addresses", bytes);
  if (auto reason = rlimit_refusal(bytes)) return reason;
  if (auto reason = cgroup_refusal(bytes)) return reason;
  if (const auto available = machine_available(); available && bytes > *available)
    return fmt::format("the machine has {} bytes available", *available);
  return std::nullopt;
}

}  // namespace weft::p2p
