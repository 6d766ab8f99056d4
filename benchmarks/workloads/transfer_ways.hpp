// The ways of a tensor in the benchmark fig7.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "weft/world.hpp"

namespace weft::bench {

/// Rank 0's end: where the tensor is written, and how it is sent.
class TransferSource {
 public:
  virtual ~TransferSource() = default;
  virtual Tensor next() = 0;
  virtual void move() = 0;
};

/// Rank 1's end.
class TransferTarget {
 public:
  virtual ~TransferTarget() = default;
  /// Valid until the next take().
  virtual const float* take() = 0;
};

/// The end of this rank; the other one is empty.
struct TransferWay {
  std::string_view kind;
  std::unique_ptr<TransferSource> source{};
  std::unique_ptr<TransferTarget> target{};
};

/// `kind`: put, view, copied or rpc. `size`: bytes, at least 4; a number that is no multiple of 4
/// is sent whole. `number` tells the ways of a world apart. Collective.
TransferWay make_transfer_way(World& world, std::string_view kind, std::size_t size,
                              std::size_t number);

}  // namespace weft::bench
