// The work of the honest ranks beside a hostile one, and of the hostile rank with them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/error.hpp"
#include "weft/world.hpp"

namespace weft::tests {

class Workload {
 public:
  virtual ~Workload() = default;
  /// Runs one step. Data from other ranks may be nonsense: a step reads all of it and does not
  /// judge it.
  virtual Status step(std::uint64_t number) = 0;
};

/// Throws Error.
std::unique_ptr<Workload> make_workload(World& world, const std::string& name);

}  // namespace weft::tests
