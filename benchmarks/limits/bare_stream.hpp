// The limit of what goes over TCP: a bare connection between the same two ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/os/fd.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Between rank 0 and another. Both do the same, rank 0 first. Throws std::runtime_error.
class BareStream {
 public:
  explicit BareStream(World& world, int other = 1);

  /// 8 bytes there and back so many times, each end asking again until they have come: microseconds
  /// one way, of each.
  std::vector<double> pings(std::uint32_t count);
  /// Rank 0 sends so many bytes so many times, and gets 8 bytes once all have come: microseconds
  /// for each.
  double send(std::size_t size, std::uint32_t count);
  /// Both send each other so many bytes at once, so many times, each rewriting them before and
  /// never far ahead of what it has got: microseconds for each.
  double exchange(std::size_t size, std::uint32_t count);

 private:
  void put(const std::byte* from, std::size_t bytes);
  void take(std::byte* to, std::size_t bytes, int flags);
  void swap(const std::byte* from, std::byte* to, std::size_t bytes);

  bool leads_;
  os::Fd socket_;
  std::vector<std::byte> buffer_;
};

}  // namespace weft::bench
