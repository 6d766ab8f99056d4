#include "topology/model/path_class.hpp"

#include <algorithm>
#include <array>

namespace weft::topology {
namespace {

struct Words {
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array<Words, kPathClasses> kWords{
    {{"LOC", "the same device"},
     {"NVL", "a link between GPUs"},
     {"C2C", "a coherent link to the processor"},
     {"PIX", "one PCIe switch"},
     {"PXB", "several PCIe switches"},
     {"P2C", "a coherent link to the processor, then PCIe"},
     {"PHB", "the same host bridge"},
     {"NODE", "other host bridges of one NUMA node"},
     {"SYS", "between NUMA nodes"}}};

}  // namespace

std::string_view name(PathClass path_class) noexcept {
  return kWords[static_cast<std::size_t>(path_class)].name;
}

std::string_view meaning(PathClass path_class) noexcept {
  return kWords[static_cast<std::size_t>(path_class)].meaning;
}

std::optional<PathClass> parse_path_class(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  if (upper == "POSTER") return PathClass::PHB;
  for (std::size_t i = 0; i < kWords.size(); ++i)
    if (kWords[i].name == upper) return static_cast<PathClass>(i);
  return std::nullopt;
}

}  // namespace weft::topology
