// The published slot of the tests, and a version of it.
#pragma once

#include <cstdint>

#include "tests/pattern.hpp"
#include "weft/published_slot.hpp"

namespace weft::tests {

inline PublishedSpec published_model(std::uint32_t depth, Flow flow) {
  return {.name = "model", .dtype = DType::f32, .shape = {3000}, .depth = depth, .flow = flow};
}

inline void publish(PublishedSlot& slot, std::uint64_t version) {
  const auto buffer = slot.next().value();
  fill(buffer, pattern_of(0, 0, version));
  slot.publish().or_throw();
}

}  // namespace weft::tests
