// One step of each operation that a fault can interrupt, between all ranks of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/world.hpp"

namespace weft::tests {

/// Made on every rank alike; each step needs every rank.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual Status step(std::uint64_t number) = 0;
};

/// `kind`: put, get, dynamic, rendezvous or push_pull; `bytes` go from rank to rank. Throws Error.
std::unique_ptr<Operation> make_operation(World& world, const std::string& kind,
                                          std::int64_t bytes);

}  // namespace weft::tests
