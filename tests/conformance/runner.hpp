// Runs bodies on one rank; after a body, everything that it used must be free again.
#pragma once

#include <map>
#include <string>

#include "tests/conformance/body.hpp"
#include "tests/conformance/meeting.hpp"

namespace weft::conformance {

/// Every rank constructs one and runs the same bodies in the same order. For use by one thread.
class Runner {
 public:
  explicit Runner(World& world);

  /// Throws the exception of the body, or Failed if the body has left memory in the arenas.
  void run(const Body& body);

 private:
  /// GPUs and paths to their memory keep some pages from their first use on.
  void use_gpus();

  World& world_;
  Check check_;
  Meeting meeting_;
};

}  // namespace weft::conformance
