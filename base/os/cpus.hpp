// The processors that this process may use.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace weft::os {

/// A set of processors, one bit each; processors from 1024 on share the bits of lower ones.
using CpuSet = std::array<std::uint64_t, 16>;

/// The processors that the scheduler may give this thread. Throws Error(system).
CpuSet affinity();
int count(const CpuSet& set) noexcept;
/// The numbers of the processors in `set`, ascending.
std::vector<int> numbers(const CpuSet& set);
bool overlap(const CpuSet& a, const CpuSet& b) noexcept;

/// The number of processors that the scheduler may give this process, or less if a cgroup's quota
/// is lower: 0.5 is half a processor. Throws Error(system).
double usable_cpus();

/// The lowest quota of this process's cgroups, in processors. nullopt if none is set. `root` is the
/// root of the file system (tests).
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace weft::os
