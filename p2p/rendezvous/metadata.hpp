// A tensor's metadata: all that a receiver needs to allocate memory for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "weft/tensor.hpp"

namespace weft::p2p::rendezvous {

struct Metadata {
  DType dtype = DType::u8;
  Shape shape;
  bool dead = false;
  std::uint16_t codec = 0;

  /// Bytes that follow; 0 for dead and empty tensors.
  std::size_t bytes() const noexcept {
    return dead ? 0 : static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  }
  friend bool operator==(const Metadata& a, const Metadata& b) noexcept {
    return a.dtype == b.dtype && a.dead == b.dead && a.codec == b.codec && a.shape == b.shape;
  }
};

/// The last 8 completed steps of one key, for detecting a repeated step.
class DoneSteps {
 public:
  void add(std::uint64_t step) noexcept {
    steps_[next_] = step;
    next_ = (next_ + 1) % steps_.size();
    count_ = std::min(count_ + 1, steps_.size());
  }
  bool contains(std::uint64_t step) const noexcept {
    return std::find(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(count_), step) !=
           steps_.begin() + static_cast<std::ptrdiff_t>(count_);
  }

 private:
  std::array<std::uint64_t, 8> steps_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

}  // namespace weft::p2p::rendezvous
