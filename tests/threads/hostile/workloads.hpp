// What honest ranks do beside a hostile one, and it with them.
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
  /// Whatever came in by others may be nonsense: it is looked at, all of it, and not judged.
  virtual Status step(std::uint64_t number) = 0;
};

/// Throws Error.
std::unique_ptr<Workload> make_workload(World& world, const std::string& name);

}  // namespace weft::tests
