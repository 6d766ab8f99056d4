// The limit over TCP: a bare connection between the same two ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/os/fd.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// A connection between rank 0 and another rank. Both call the same functions. Throws
/// std::runtime_error.
class BareStream {
 public:
  explicit BareStream(World& world, int other = 1);

  /// Sends 8 bytes there and back `count` times, polling for each arrival. Returns microseconds one
  /// way, for each.
  std::vector<double> pings(std::uint32_t count);
  /// Rank 0 sends `size` bytes `count` times and gets 8 bytes once all have arrived. Returns
  /// microseconds per transfer.
  double send(std::size_t size, std::uint32_t count);
  /// Both ranks send each other `size` bytes at once, `count` times, rewriting them before and
  /// never far ahead of what they have received. Returns microseconds per exchange.
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
