// The smallest fabric: ranks are threads of one process and copy into each other's memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "p2p/transport/fabric.hpp"

namespace weft::toy {

class ToyFabric;

/// Joins the ranks of one job. Must outlive their worlds.
struct ToyNetwork {
  /// The only fabric of each rank.
  p2p::MakeFabrics fabrics();

  /// From now on puts take their time, one after another, and nothing of them is there before.
  void stop_clock() noexcept { clock_stands = true; }
  /// Time passes: that many bytes get there.
  void tick(std::size_t bytes);

  std::mutex mutex;                 ///< held by every copy: simple, not fast; guards all else here
  std::map<int, ToyFabric*> ranks;  ///< absent or null before a rank listens and once it is gone
  struct OnItsWay {
    std::size_t bytes;
    std::function<void()> arrive;
  };
  std::deque<OnItsWay> on_their_way;  ///< puts, while the clock stands
  std::uint64_t posted = 0;
  std::uint64_t arrived = 0;
  std::atomic<bool> clock_stands{false};
  bool paced = false;  ///< before ranks join: puts may take their time
  /// Before ranks join: sees, and may change, each put. Any thread.
  std::function<void(p2p::PutWork&)> on_put;
};

}  // namespace weft::toy
