// Consistency: how far workers may be out of step, and which gradients an update takes.
#pragma once

#include <cstdint>

namespace weft::pslib {

/// The gradients that an update takes, and the values that a worker may see. A worker's clock is
/// the number of its pushes. All kinds but bsp need servers that only serve. docs/pslib.md has the
/// protocol.
struct Consistency {
  enum class Kind : std::uint8_t {
    bsp,  ///< all workers' gradients of one step; no worker sees a later step first
    ssp,  ///< one gradient, as they arrive; a pull waits while its worker is more than `staleness`
          ///< clocks ahead of the slowest
    async,  ///< one gradient, as they arrive
    k_of_n  ///< the first `k` gradients, whoever's they are; needs exactly one server
  };
  /// k_of_n: the server takes gradients one by one, as it finds them, and the k-th makes the
  /// update. If fewer than k workers are left, the gradients of all of them make it. A gradient is
  /// late if it was computed from values that are not the newest any more when the server takes it.
  /// `dropped`: it is discarded, and counts neither for k nor for the parameters. `folded`: it is a
  /// gradient of the next update like any other. A worker may be late in every step: with `dropped`
  /// its gradients then count for nothing. Both are counted (TableStatistics).
  enum class Late : std::uint8_t { dropped, folded };
  Kind kind = Kind::bsp;
  std::uint32_t staleness = 0;  ///< ssp: clocks
  std::uint32_t k = 1;          ///< k_of_n: gradients per update
  Late late = Late::dropped;    ///< k_of_n

  static Consistency bsp() { return {}; }
  static Consistency ssp(std::uint32_t staleness) { return {Kind::ssp, staleness}; }
  static Consistency async() { return {Kind::async}; }
  static Consistency first(std::uint32_t k, Late late = Late::dropped) {
    return {Kind::k_of_n, 0, k, late};
  }
};

}  // namespace weft::pslib
