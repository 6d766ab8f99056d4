// Compression of a dense table's gradients on their way to the servers.
#pragma once

#include <cstdint>

namespace weft::pslib {

/// The part of the gradients that a push carries. The worker keeps the rest, the residual, in f32
/// and adds it to the next push's gradients (error feedback; Seide et al. 2014, Karimireddy et al.
/// 2019), so it arrives later and is never lost. Pulls are not compressed: TableOptions::wire gives
/// their type. docs/pslib.md has the cost of each kind.
struct Compression {
  enum class Kind : std::uint8_t {
    none,   ///< all elements, in the table's wire type, read in place by the servers
    int8,   ///< all elements, as 8-bit codes in blocks of 256; scale = largest magnitude / 127
    top_k,  ///< the largest elements of each tensor by magnitude, in f32, with their indices
  };
  Kind kind = Kind::none;
  float ratio = 0.01F;  ///< top_k: share of each tensor's elements, in (0, 1); at least 1 element

  static Compression int8() { return {Kind::int8}; }
  static Compression top_k(float ratio) { return {Kind::top_k, ratio}; }
};

/// A worker's compression of one table: its savings and its cost.
struct CompressionStatistics {
  std::uint64_t bytes_spared = 0;  ///< over all pushes: bytes of gradients minus bytes sent
  std::uint64_t nanoseconds = 0;   ///< time spent compressing
  double residual_norm = 0.0;      ///< Euclidean norm of the residual after the last push
};

}  // namespace weft::pslib
