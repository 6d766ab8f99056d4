// How far workers may be out of step, and what of their gradients an update takes.
#pragma once

#include <cstdint>

namespace weft::pslib {

/// What an update takes, and which values a worker may see. A worker's clock is the number of its
/// pushes. All but bsp need servers that only serve. docs/pslib.md has the protocol.
struct Consistency {
  enum class Kind : std::uint8_t {
    bsp,    ///< every worker's gradient of a step; nobody is ahead
    ssp,    ///< each gradient as it comes; nobody pulls `staleness` clocks ahead of the slowest
    async,  ///< each gradient as it comes
    k_of_n  ///< the first k gradients of a step; on one server
  };
  /// k_of_n: what becomes of a gradient for a step that was made without it.
  enum class Late : std::uint8_t { dropped, folded };
  Kind kind = Kind::bsp;
  std::uint32_t staleness = 0;
  std::uint32_t k = 1;
  Late late = Late::dropped;

  static Consistency bsp() { return {}; }
  static Consistency ssp(std::uint32_t staleness) { return {Kind::ssp, staleness}; }
  static Consistency async() { return {Kind::async}; }
  static Consistency first(std::uint32_t k, Late late = Late::dropped) {
    return {Kind::k_of_n, 0, k, late};
  }
};

}  // namespace weft::pslib
