// How many processors this process may use.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace weft::os {

/// A set of processors, a bit each; those above 1024 share the bits of the lower ones.
using CpuSet = std::array<std::uint64_t, 16>;

/// The processors that the scheduler may give this thread. Throws Error(system).
CpuSet affinity();
int count(const CpuSet& set) noexcept;
/// Their numbers, ascending.
std::vector<int> numbers(const CpuSet& set);
bool overlap(const CpuSet& a, const CpuSet& b) noexcept;

/// The processors that the scheduler may give this process, or fewer where a control group's quota
/// allows less: 0.5 is half of one. Throws Error(system).
double usable_cpus();

/// The least quota of the process's control groups, in processors. nullopt: none is set.
/// `root` is where the file system begins (tests).
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace weft::os
