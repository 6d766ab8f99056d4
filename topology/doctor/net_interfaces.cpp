#include "topology/doctor/net_interfaces.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace weft::doctor {
namespace {

constexpr long kEthernet = 1;
constexpr long kLoopback = 772;

std::optional<long> speed_of(const topology::Files& files, const std::string& folder) {
  const auto mbit = files.read_number(folder + "/speed");
  // Drivers that know no speed give -1, which old kernels print without its sign.
  if (!mbit || *mbit <= 0 || *mbit >= std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return mbit;
}

}  // namespace

std::vector<NetInterface> interfaces_up(const topology::Files& files) {
  std::vector<NetInterface> found;
  for (const std::string& name : files.list("/sys/class/net")) {
    const std::string folder = "/sys/class/net/" + name;
    const auto type = files.read_number(folder + "/type");
    const auto state = files.read(folder + "/operstate").value_or("");
    // Some drivers don't report the state of their link.
    const bool is_up = state == "up" || state == "unknown";
    if (!is_up || type == kLoopback || files.exists(folder + "/bonding_slave")) continue;
    found.push_back(
        {.name = name,
         .of_hardware = files.exists(folder + "/device") || files.exists(folder + "/bonding"),
         .is_ethernet = type == kEthernet,
         .mtu = files.read_number(folder + "/mtu"),
         .mbit_per_second = speed_of(files, folder)});
  }
  return found;
}

std::vector<NetInterface> interfaces_to_others(const topology::Files& files) {
  auto all = interfaces_up(files);
  if (std::ranges::any_of(all, &NetInterface::of_hardware))
    std::erase_if(all, [](const NetInterface& interface) { return !interface.of_hardware; });
  return all;
}

}  // namespace weft::doctor
