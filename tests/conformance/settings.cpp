#include "tests/conformance/settings.hpp"

#include <cstdlib>
#include <random>

namespace weft::conformance {

std::uint64_t seed_to_use() {
  const char* given = std::getenv("WEFT_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
}

}  // namespace weft::conformance
