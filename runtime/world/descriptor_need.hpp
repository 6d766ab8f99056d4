// The descriptors that a rank takes, and the error of a process that has too few.
#pragma once

#include <cstddef>

#include "base/config.hpp"

namespace weft::detail {

/// Descriptors of a rank without data memory and RDMA: those of weft and PMIx, with the three that
/// every process has, and those for each rank of its host (socket, pidfd, event descriptor, stats
/// segment).
inline constexpr int kDescriptors = 25;
inline constexpr int kDescriptorsPerRank = 4;
/// The part of kDescriptors that is open before a rank joins: that of every process, and at most
/// four of PMIx and the launcher.
inline constexpr int kDescriptorsOfEveryProcess = 3;
inline constexpr int kDescriptorsOfTheLauncher = 4;

/// Ranks of a job, and how many of them are on this rank's host.
struct RankCounts {
  int all = 1;
  int local = 1;
};

/// Descriptors that a rank opens after its bootstrap, a chunk of data memory included. The ranks of
/// other hosts count as reached by TCP, which takes more than RDMA, unless WEFT_FABRIC says verbs.
std::size_t descriptors_to_open(const Config& config, const RankCounts& ranks);

/// Throws Error(exhausted) if this process can't open that many. `passing`: open ones that close
/// before the rank connects.
void require_descriptors(const Config& config, const RankCounts& ranks, int passing = 0);

/// The most connections for data to each peer by TCP, where WEFT_RAILS is auto: 4 if `free`
/// descriptors suffice for those to all ranks, and for the calls of all addresses of each rank that
/// precede them; else 1.
int tcp_rails_within(const Config& config, const RankCounts& ranks, std::size_t free);
/// With those that this process can still open.
int tcp_rails_within_limit(const Config& config, const RankCounts& ranks);

}  // namespace weft::detail
