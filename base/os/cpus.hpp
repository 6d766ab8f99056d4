// How many processors this process may use.
#pragma once

#include <filesystem>
#include <optional>

namespace weft::os {

/// The processors that the scheduler may give this process, or fewer where a control group's quota
/// allows less: 0.5 is half of one. Throws Error(system).
double usable_cpus();

/// The least quota of the process's control groups, in processors. nullopt: none is set.
/// `root` is where the file system begins (tests).
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace weft::os
