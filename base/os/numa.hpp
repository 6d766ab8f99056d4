// NUMA nodes of processors and of memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::os {

/// Makes later page faults in the range take pages of NUMA node `node` while it has free ones.
/// `data` is page-aligned. False if the kernel refuses: there is no such node, or the container
/// forbids the call.
bool prefer_numa(void* data, std::size_t bytes, int node) noexcept;

/// Makes later page faults in the range take pages of these NUMA nodes alone: of `first` while it
/// has free ones (Linux 5.17; -1: no preference), then of the nearest. `data` is page-aligned.
/// False if the kernel refuses: none of the nodes may be used, or the container forbids the call.
bool bind_numa(void* data, std::size_t bytes, std::span<const int> nodes, int first) noexcept;

/// True if this thread has a memory policy of its own (numactl, set_mempolicy).
bool has_memory_policy() noexcept;

/// The NUMA node that all `cpus` belong to; -1 if there are several or the kernel does not tell.
/// `folder` is where the kernel describes processors (tests).
int numa_node_of(std::span<const int> cpus,
                 const std::filesystem::path& folder = "/sys/devices/system/cpu");

}  // namespace weft::os
