// What a NIC does with nothing of weft on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/world.hpp"

namespace weft::bench {

/// One queue pair between two ranks, whose numbers travel by slots. Collective.
class BareQueuePair {
 public:
  static constexpr int kReceives = 64;

  /// `bytes`: of what is written and read at once. Throws weft::Error where there is no RDMA
  /// device.
  BareQueuePair(World& world, std::size_t bytes);
  ~BareQueuePair();

  /// Microseconds for half of each round trip of 8-byte WRITE_WITH_IMMs; both ranks call it.
  std::vector<double> pings(std::uint32_t rounds);
  /// Microseconds for each of `count` WRITEs or READs of `size` bytes that are under way at once.
  /// The other rank does nothing.
  double write(std::size_t size, std::uint32_t count);
  double read(std::size_t size, std::uint32_t count);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::bench
