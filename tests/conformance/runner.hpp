// One rank's way through bodies: what a body used must be free again when it is over.
#pragma once

#include <map>
#include <string>

#include "tests/conformance/body.hpp"
#include "tests/conformance/meeting.hpp"

namespace weft::conformance {

/// Every rank makes one and runs the same bodies in the same order. One thread.
class Runner {
 public:
  explicit Runner(World& world) : world_(world), check_(world), meeting_(world, "runner") {}

  /// Throws what the body threw, or Failed when something of it is left in the arenas.
  void run(const Body& body);

 private:
  World& world_;
  Check check_;
  Meeting meeting_;
};

}  // namespace weft::conformance
