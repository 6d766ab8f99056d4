// How a dense table's gradients are made smaller on their way to the servers.
#pragma once

#include <cstdint>

namespace weft::pslib {

/// What a push carries of the gradients. What it leaves out is kept by the worker in f32 and added
/// to the next push's (error feedback; Seide et al. 2014, Karimireddy et al. 2019), so it comes
/// late, not never. Parameters are pulled as TableOptions::wire says. docs/pslib.md has what each
/// costs.
struct Compression {
  enum class Kind : std::uint8_t {
    none,   ///< all of them, of the table's wire type, read by the servers where they lie
    int8,   ///< all, as 8-bit multiples of the largest of 256 neighbours over 127
    top_k,  ///< of each tensor the largest by magnitude, in f32, with their places
  };
  Kind kind = Kind::none;
  float ratio = 0.01F;  ///< top_k: the share of a tensor's elements, at least one; in (0, 1)

  static Compression int8() { return {Kind::int8}; }
  static Compression top_k(float ratio) { return {Kind::top_k, ratio}; }
};

/// What compression has cost a worker, and saved it.
struct CompressionStatistics {
  std::uint64_t bytes_spared = 0;  ///< of all pushes: bytes of the gradients, less what was sent
  std::uint64_t nanoseconds = 0;   ///< spent in compressing
  double residual_norm = 0.0;      ///< |what the last push has left out|
};

}  // namespace weft::pslib
