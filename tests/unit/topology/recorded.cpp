#include "tests/unit/topology/recorded.hpp"

#include <cstdlib>
#include <filesystem>

std::string recorded_machine(const std::string& file) {
  namespace fs = std::filesystem;
  if (const char* folder = std::getenv("WEFT_TEST_TOPOLOGIES")) {
    const fs::path path = fs::path(folder) / file;
    return fs::exists(path) ? path.string() : std::string{};
  }
  for (fs::path at = WEFT_SOURCE_DIR; at.has_relative_path(); at = at.parent_path()) {
    const fs::path path = at.parent_path() / "shared" / "topologies" / file;
    if (fs::exists(path)) return path.string();
  }
  return {};
}
