// The smallest fabric: ranks are threads of one process and copy into each other's memory.
#pragma once

#include <map>
#include <mutex>

#include "p2p/transport/fabric.hpp"

namespace weft::toy {

class ToyFabric;

/// Joins the ranks of one job. Must outlive their worlds.
struct ToyNetwork {
  /// The only fabric of each rank.
  p2p::MakeFabrics fabrics();

  std::mutex mutex;                 ///< held by every copy: simple, not fast; guards all else here
  std::map<int, ToyFabric*> ranks;  ///< absent or null before a rank listens and once it is gone
};

}  // namespace weft::toy
