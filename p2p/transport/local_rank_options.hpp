// Options of a LocalRank.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/progress/progress.hpp"
#include "p2p/progress/waiter.hpp"
#include "topology/placement/rank_placement.hpp"

namespace weft::p2p {

struct LocalRankOptions {
  int rank = 0;
  int size = 1;
  Config config;
  std::shared_ptr<Log> log;
  std::shared_ptr<SegmentMapper> mapper;  ///< shared by ranks of one process
  Progress* progress = nullptr;           ///< must outlive the rank
  Sleeper* sleeper = nullptr;             ///< where ranks take turns on one thread
  /// With a sleeper: arenas grow by this much memory, which other processes can't map.
  std::size_t private_chunk = 64u << 10;
  topology::RankPlacement placement = {};  ///< its NIC, and the NUMA nodes for its memory
  std::string job = {};                    ///< as the launcher names it
  bool alone_on_host = false;              ///< no other rank can map its stats segment
};

}  // namespace weft::p2p
