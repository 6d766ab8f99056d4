#include "topology/doctor/acs.hpp"

#include <algorithm>
#include <set>

#include "topology/doctor/file_tree.hpp"

namespace weft::doctor {
namespace {

constexpr std::size_t kExtendedSpace = 0x100;
constexpr std::uint32_t kAcs = 0x000d;
// Request, completion redirect; upstream forwarding concerns others.
constexpr std::uint32_t kRedirectBits = 0x04 | 0x08;

std::uint32_t word(std::string_view bytes, std::size_t at) {
  if (at + 2 > bytes.size()) return 0;
  return static_cast<std::uint8_t>(bytes[at]) |
         std::uint32_t{static_cast<std::uint8_t>(bytes[at + 1])} << 8;
}

/// The bridges between two devices of one switch, on both sides. Empty: they share none.
std::vector<PciFunction> between(const PciFunction& a, const PciFunction& b) {
  const auto above_a = bridges_above(a);
  const auto above_b = bridges_above(b);
  const auto is_above = [](const std::vector<PciFunction>& bridges, const PciFunction& bridge) {
    return std::any_of(bridges.begin(), bridges.end(),
                       [&](const PciFunction& other) { return other.dir == bridge.dir; });
  };
  const auto common = std::find_if(above_a.begin(), above_a.end(), [&](const PciFunction& bridge) {
    return is_above(above_b, bridge);
  });
  if (common == above_a.end()) return {};
  std::vector<PciFunction> ports(above_a.begin(), common);
  for (const PciFunction& bridge : above_b) {
    if (bridge.dir == common->dir) break;
    ports.push_back(bridge);
  }
  return ports;
}

}  // namespace

Redirects redirects(std::string_view configuration) {
  if (configuration.size() <= kExtendedSpace) return Redirects::unreadable;
  std::size_t at = kExtendedSpace;
  // A list that leads in a circle is left after as many steps as it could have entries.
  for (std::size_t steps = 0; at >= kExtendedSpace && steps < configuration.size() / 8; ++steps) {
    if (at + 8 > configuration.size()) break;
    if (word(configuration, at) == kAcs)
      return (word(configuration, at + 6) & kRedirectBits) != 0 ? Redirects::yes : Redirects::no;
    at = word(configuration, at + 2) >> 4;
  }
  return Redirects::no;
}

Redirections redirections(std::span<const PciFunction> gpus, std::span<const PciFunction> nics) {
  Redirections found;
  std::set<std::string> unread, to_nic, to_gpu;
  const auto look = [&](const PciFunction& a, const PciFunction& b, std::set<std::string>& guilty) {
    const auto bridges = between(a, b);
    if (!bridges.empty()) ++found.pairs;
    for (const PciFunction& bridge : bridges) {
      const auto answer = redirects(read_bytes(bridge.dir / "config", 4096));
      if (answer == Redirects::yes) guilty.insert(bridge.address);
      if (answer == Redirects::unreadable) unread.insert(bridge.address);
    }
  };
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (const PciFunction& nic : nics) look(gpus[i], nic, to_nic);
    for (const PciFunction& other : gpus.subspan(i + 1)) look(gpus[i], other, to_gpu);
  }
  found.gpu_to_nic.assign(to_nic.begin(), to_nic.end());
  found.gpu_to_gpu.assign(to_gpu.begin(), to_gpu.end());
  found.unread.assign(unread.begin(), unread.end());
  return found;
}

}  // namespace weft::doctor
