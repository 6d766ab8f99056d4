// This host's interfaces, as the kernel lists them.
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string_view>

#include "base/os/system_error.hpp"
#include "p2p/transport/address/ip_address.hpp"

namespace weft::p2p {
namespace {

struct FreeInterfaces {
  void operator()(ifaddrs* all) const noexcept { ::freeifaddrs(all); }
};

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

int prefix_bits(const ifaddrs& entry) {
  if (entry.ifa_netmask == nullptr) return 128;
  int bits = 0;
  const IpAddress mask = ip_address_of(*entry.ifa_netmask);
  // The IPv6 prefix that an IPv4 address is mapped into belongs to the prefix.
  const std::size_t first = entry.ifa_addr->sa_family == AF_INET ? 12 : 0;
  for (std::size_t i = first; i < mask.size(); ++i)
    bits += std::popcount(std::to_integer<unsigned>(mask[i]));
  return bits + static_cast<int>(8 * first);
}

const std::filesystem::path kKernel = "/sys/class/net";

/// 0 where the kernel says nothing, or that it does not know.
std::uint32_t mbits_of(const std::string& name) {
  std::int64_t mbits = 0;
  std::ifstream(kKernel / name / "speed") >> mbits;
  return mbits > 0 && mbits < std::numeric_limits<std::uint32_t>::max()
             ? static_cast<std::uint32_t>(mbits)
             : 0;
}

/// Below a VLAN lies one interface; below a bond or a bridge lie several, which it makes one.
std::string port_of(std::string name) {
  constexpr int kMostDeep = 8;
  constexpr std::string_view kLower = "lower_";
  for (int depth = 0; depth < kMostDeep; ++depth) {
    std::vector<std::string> lower;
    // A directory_iterator that finds no memory ends the process.
    const std::unique_ptr<DIR, CloseFolder> folder(::opendir((kKernel / name).c_str()));
    while (const dirent* const entry = folder ? ::readdir(folder.get()) : nullptr)
      if (const std::string_view link = entry->d_name; link.starts_with(kLower))
        lower.emplace_back(link.substr(kLower.size()));
    if (lower.size() != 1) break;
    name = lower.front();
  }
  return name;
}

}  // namespace

Interfaces interfaces() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) os::throw_system_error("join", "getifaddrs");
  const std::unique_ptr<ifaddrs, FreeInterfaces> all(found);
  Interfaces host;
  for (const ifaddrs* at = all.get(); at != nullptr; at = at->ifa_next) {
    host.bare.emplace_back(at->ifa_name);
    if (at->ifa_addr == nullptr) continue;
    const auto family = at->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || (at->ifa_flags & IFF_UP) == 0 ||
        (at->ifa_flags & IFF_RUNNING) == 0)
      continue;
    // An address with a label has "eth0:label" here.
    const std::string_view label = at->ifa_name;
    const std::string interface(label.substr(0, label.find(':')));
    host.addresses.push_back({.name = at->ifa_name,
                              .ip = ip_address_of(*at->ifa_addr),
                              .prefix_bits = prefix_bits(*at),
                              .loopback = (at->ifa_flags & IFF_LOOPBACK) != 0,
                              .port = port_of(interface),
                              .mbits = mbits_of(interface)});
  }
  std::ranges::sort(host.bare);
  host.bare.erase(std::unique(host.bare.begin(), host.bare.end()), host.bare.end());
  std::erase_if(host.bare, [&](const std::string& name) {
    return std::ranges::find(host.addresses, name, &InterfaceAddress::name) != host.addresses.end();
  });
  return host;
}

std::vector<InterfaceAddress> interface_addresses() { return interfaces().addresses; }

}  // namespace weft::p2p
