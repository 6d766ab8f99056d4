// The limit of RDMA: a NIC driven without weft.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/world.hpp"

namespace weft::bench {

/// One queue pair between two ranks; its numbers are exchanged through slots. Collective.
class BareQueuePair {
 public:
  static constexpr int kReceives = 64;

  /// `bytes` is the most that is written or read at once. Throws weft::Error if there is no RDMA
  /// device.
  BareQueuePair(World& world, std::size_t bytes);
  ~BareQueuePair();

  /// Half of each round trip of 8-byte WRITE_WITH_IMMs, in microseconds. Both ranks call it.
  std::vector<double> pings(std::uint32_t rounds);
  /// Microseconds per operation of `count` WRITEs or READs of `size` bytes under way at once. The
  /// other rank does nothing.
  double write(std::size_t size, std::uint32_t count);
  double read(std::size_t size, std::uint32_t count);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::bench
