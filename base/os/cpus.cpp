#include "base/os/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fstream>
#include <vector>

#include "base/os/cgroup.hpp"
#include "base/os/system_error.hpp"

namespace weft::os {
namespace {

namespace fs = std::filesystem;

std::vector<cpu_set_t> affine_cpus() {
  // The kernel refuses a set smaller than its own, whose size it does not tell: grow until it
  // accepts.
  for (std::vector<cpu_set_t> set(1);; set.resize(set.size() * 2)) {
    if (::sched_getaffinity(0, set.size() * sizeof(cpu_set_t), set.data()) == 0) return set;
    if (errno != EINVAL || set.size() > 1024) throw_system_error("sched_getaffinity", "");
  }
}

/// A group's quota in processors: time per period, from one file with two words (version 2) or from
/// two files (version 1). nullopt if there is no quota ("max" or -1).
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

CpuSet affinity() {
  CpuSet folded{};
  const auto set = affine_cpus();
  for (std::size_t cpu = 0; cpu < set.size() * CPU_SETSIZE; ++cpu)
    if (CPU_ISSET_S(cpu, set.size() * sizeof(cpu_set_t), set.data()))
      folded[cpu / 64 % folded.size()] |= std::uint64_t{1} << (cpu % 64);
  return folded;
}

int count(const CpuSet& set) noexcept {
  int bits = 0;
  for (const std::uint64_t word : set) bits += std::popcount(word);
  return bits;
}

std::vector<int> numbers(const CpuSet& set) {
  std::vector<int> all;
  for (std::size_t cpu = 0; cpu < set.size() * 64; ++cpu)
    if ((set[cpu / 64] >> (cpu % 64) & 1) != 0) all.push_back(static_cast<int>(cpu));
  return all;
}

bool overlap(const CpuSet& a, const CpuSet& b) noexcept {
  for (std::size_t i = 0; i < a.size(); ++i)
    if ((a[i] & b[i]) != 0) return true;
  return false;
}

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for (const auto& group : own_cgroups("cpu", root))
    if (const auto quota = quota_of(group)) least = std::min(*quota, least.value_or(*quota));
  return least;
}

double usable_cpus() {
  const auto set = affine_cpus();
  const double cpus = CPU_COUNT_S(set.size() * sizeof(cpu_set_t), set.data());
  return std::min(cpus, cpu_quota().value_or(cpus));
}

}  // namespace weft::os
