#include "tests/conformance/check.hpp"

namespace weft::conformance {

void Check::fail(const std::string& what, const Where& where) const {
  const std::string_view path = where.file;
  throw Failed("rank " + std::to_string(world_->rank()) + " of " + std::to_string(world_->size()) +
               ": " + what + " (" + std::string(path.substr(path.rfind('/') + 1)) + ":" +
               std::to_string(where.line) + ")");
}

}  // namespace weft::conformance
