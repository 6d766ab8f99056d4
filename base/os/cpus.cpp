#include "base/os/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

#include "base/os/cgroup.hpp"
#include "base/os/system_error.hpp"

namespace weft::os {
namespace {

namespace fs = std::filesystem;

int affine_cpus() {
  // The kernel refuses a set smaller than its own, whose size it doesn't tell.
  for (std::vector<cpu_set_t> set(1);; set.resize(set.size() * 2)) {
    const auto bytes = set.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, set.data()) == 0) return CPU_COUNT_S(bytes, set.data());
    if (errno != EINVAL || set.size() > 1024) throw_system_error("sched_getaffinity", "");
  }
}

/// Microseconds of processor time for each period, read from two words of one file (version 2) or
/// from two files (version 1). "max" and -1 stand for no quota.
std::optional<double> quota_of(const fs::path& group) {
  double quota = 0;
  double period = 0;
  std::ifstream unified(group / "cpu.max");
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  const bool is_read =
      (unified >> quota >> period) || (quota_file >> quota && period_file >> period);
  if (!is_read || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for (const auto& group : own_cgroups("cpu", root))
    if (const auto quota = quota_of(group)) least = std::min(*quota, least.value_or(*quota));
  return least;
}

double usable_cpus() {
  const double cpus = affine_cpus();
  return std::min(cpus, cpu_quota().value_or(cpus));
}

}  // namespace weft::os
