#include "p2p/transport/address/ip_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/os/fd.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

constexpr std::size_t kMappedBytes = 12;  // before the IPv4 address in an IPv6 one
constexpr int kMappedBits = 8 * kMappedBytes;

struct Prefix {
  IpAddress ip{};
  int bits = 128;
};

IpAddress mapped(const in_addr& address) {
  IpAddress ip{};
  ip[10] = ip[11] = std::byte{0xff};
  std::memcpy(ip.data() + kMappedBytes, &address, sizeof address);
  return ip;
}

std::optional<IpAddress> parse_ip_address(const std::string& text) {
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return mapped(v4);
  IpAddress ip{};
  if (::inet_pton(AF_INET6, text.c_str(), ip.data()) == 1) return ip;
  return std::nullopt;
}

/// An address alone is a prefix of all its bits.
std::optional<Prefix> parse_prefix(std::string_view text) {
  const auto slash = text.find('/');
  const auto ip = parse_ip_address(std::string(text.substr(0, slash)));
  if (!ip) return std::nullopt;
  Prefix prefix{.ip = *ip};
  if (slash == text.npos) return prefix;
  const auto bits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(bits.begin(), bits.end(), prefix.bits);
  if (error != std::errc{} || end != bits.end() || prefix.bits < 0) return std::nullopt;
  if (is_ipv4(*ip)) prefix.bits += kMappedBits;
  return prefix.bits <= 128 ? std::optional(prefix) : std::nullopt;
}

/// Without its interface, a link-local IPv6 address says nothing to another host.
bool is_link_local(const IpAddress& ip) {
  if (is_ipv4(ip)) return ip[12] == std::byte{169} && ip[13] == std::byte{254};
  return ip[0] == std::byte{0xfe} && (ip[1] & std::byte{0xc0}) == std::byte{0x80};
}

/// Bridges of this host's containers and virtual machines: other hosts don't reach them,
/// and may well have the same address themselves.
bool is_of_containers(std::string_view name) {
  constexpr std::array kPrefixes = {"docker", "br-",     "virbr", "veth",    "vnet", "lxcbr",
                                    "lxdbr",  "podman",  "cni",   "flannel", "cali", "cilium",
                                    "kube",   "nerdctl", "tunl",  "dummy"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// An interface with many addresses must not crowd out the others: of each, the first IPv4 and
/// IPv6 address come before the rest.
std::vector<IpAddress> best_first(const std::vector<InterfaceAddress>& eligible) {
  std::vector<IpAddress> firsts;
  std::vector<IpAddress> rest;
  for (auto at = eligible.begin(); at != eligible.end(); ++at) {
    const bool is_first = std::none_of(eligible.begin(), at, [&](const InterfaceAddress& a) {
      return a.name == at->name && is_ipv4(a.ip) == is_ipv4(at->ip);
    });
    (is_first ? firsts : rest).push_back(at->ip);
  }
  std::stable_partition(firsts.begin(), firsts.end(), is_ipv4);
  firsts.insert(firsts.end(), rest.begin(), rest.end());
  firsts.resize(std::min(firsts.size(), ConnectorAddress::kMaxIps));
  return firsts;
}

template <typename Filter>
std::vector<IpAddress> choose(std::span<const InterfaceAddress> addresses, const Filter& filter) {
  std::vector<InterfaceAddress> eligible;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(eligible), filter);
  return best_first(eligible);
}

std::string known(const Interfaces& host) {
  std::string all;
  const auto add = [&all](const std::string& one) { all += (all.empty() ? "" : ", ") + one; };
  for (const InterfaceAddress& a : host.addresses) add(a.name + ' ' + text(a.ip));
  for (const std::string& name : host.bare) add(name + " (down, or without an address)");
  return all;
}

[[noreturn]] void refuse(std::string_view wanted, std::string_view trouble,
                         const Interfaces& host) {
  throw Error(ErrorDetail{
      .code = Code::bad_config,
      .operation = "join",
      .message = fmt::format("WEFT_IFACE=\"{}\" {}; this host's interfaces: {}", wanted, trouble,
                             known(host)),
      .hint = "name interfaces, addresses or prefixes of this host, each once, or auto"});
}

std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

/// The addresses of an interface or in a prefix, or an address alone.
std::vector<IpAddress> ips_of(const Interfaces& host, std::string_view name) {
  const auto prefix = parse_prefix(name);
  return choose(host.addresses, [&](const InterfaceAddress& a) {
    const bool asked = prefix ? in_prefix(a.ip, prefix->ip, prefix->bits) : a.name == name;
    return asked && (is_ipv4(a.ip) || !is_link_local(a.ip));
  });
}

bool is_there(const Interfaces& host, std::string_view name) {
  return std::ranges::find(host.bare, name) != host.bare.end() ||
         std::ranges::find(host.addresses, name, &InterfaceAddress::name) != host.addresses.end();
}

/// As `wanted` names them: the first of each, the second of each, and so on.
ChosenIps choose_named(const Interfaces& host, std::string_view wanted) {
  const std::vector<std::string_view> names = names_in(wanted);
  if (names.size() > ConnectorAddress::kMaxIps)
    refuse(wanted, fmt::format("names more than {}", ConnectorAddress::kMaxIps), host);
  ChosenIps chosen;
  std::vector<std::vector<IpAddress>> of_each;
  for (auto name = names.begin(); name != names.end(); ++name) {
    std::vector<IpAddress> ips = ips_of(host, *name);
    if (ips.empty() && !is_there(host, *name))
      refuse(wanted, fmt::format("names \"{}\", which is none of them", *name), host);
    const bool is_again = std::ranges::any_of(of_each, [&](const auto& before) {
      return std::ranges::find_first_of(before, ips) != before.end();
    });
    if (is_again || std::find(names.begin(), name, *name) != name)
      refuse(wanted, fmt::format("names \"{}\" twice", *name), host);
    if (ips.empty()) chosen.left_out.emplace_back(*name);
    of_each.push_back(std::move(ips));
  }
  for (std::size_t i = 0; i < ConnectorAddress::kMaxIps; ++i)
    for (const auto& ips : of_each)
      if (i < ips.size() && chosen.ips.size() < ConnectorAddress::kMaxIps)
        chosen.ips.push_back(ips[i]);
  if (chosen.ips.empty()) refuse(wanted, "names none with an address", host);
  return chosen;
}

}  // namespace

bool in_prefix(const IpAddress& ip, const IpAddress& prefix, int bits) noexcept {
  for (std::size_t i = 0; i < ip.size() && bits > 0; ++i, bits -= 8) {
    const auto kept = bits >= 8 ? std::byte{0xff} : std::byte{0xff} << (8 - bits);
    if (((ip[i] ^ prefix[i]) & kept) != std::byte{0}) return false;
  }
  return true;
}

bool is_ipv4(const IpAddress& ip) noexcept {
  constexpr IpAddress kMapped = {{std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                                  std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                                  std::byte{0}, std::byte{0}, std::byte{0xff}, std::byte{0xff}}};
  return std::equal(kMapped.begin(), kMapped.begin() + kMappedBytes, ip.begin());
}

SocketAddress socket_address(const IpAddress& ip, std::uint16_t port) noexcept {
  SocketAddress address;
  if (is_ipv4(ip)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data() + kMappedBytes, sizeof v4.sin_addr);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.size = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, ip.data(), ip.size());
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.size = sizeof v6;
  }
  return address;
}

IpAddress ip_address_of(const sockaddr& address) noexcept {
  IpAddress ip{};
  if (address.sa_family == AF_INET)
    return mapped(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  if (address.sa_family == AF_INET6)
    std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, ip.size());
  return ip;
}

ChosenIps choose_ip_addresses(const Interfaces& host, std::string_view wanted) {
  if (wanted != "auto") return choose_named(host, wanted);
  auto ips = choose(host.addresses, [](const InterfaceAddress& a) {
    return !a.loopback && !is_link_local(a.ip) && !is_of_containers(a.name);
  });
  // A host without a network: its own ranks still meet.
  if (ips.empty()) ips = choose(host.addresses, [](const auto& a) { return a.loopback; });
  return {.ips = std::move(ips), .left_out = {}};
}

std::vector<IpAddress> addresses_beside(std::span<const InterfaceAddress> host,
                                        std::span<const IpAddress> ips) {
  std::vector<IpAddress> beside;
  for (const InterfaceAddress& own : host)
    if (std::ranges::any_of(host, [&](const InterfaceAddress& other) {
          return other.name == own.name && std::ranges::find(ips, other.ip) != ips.end();
        }))
      beside.push_back(own.ip);
  return beside;
}

IpAddress source_towards(const IpAddress& ip) noexcept {
  // Connecting a socket for datagrams sends nothing.
  constexpr std::uint16_t kAnyPort = 9;
  const SocketAddress to = socket_address(ip, kAnyPort);
  const os::Fd socket(::socket(is_ipv4(ip) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to.get(), to.size) != 0) return {};
  return address_of(socket.get(), ::getsockname);
}

std::vector<IpAddress> sort_by_reachability(const ConnectorAddress& peer,
                                            std::span<const InterfaceAddress> own, bool only_own) {
  std::vector<IpAddress> ips(
      peer.ips.begin(),
      peer.ips.begin() + std::min<std::ptrdiff_t>(peer.count, ConnectorAddress::kMaxIps));
  const auto others = std::stable_partition(ips.begin(), ips.end(), [&](const IpAddress& ip) {
    return std::any_of(own.begin(), own.end(), [&](const InterfaceAddress& a) {
      return in_prefix(ip, a.ip, a.prefix_bits);
    });
  });
  if (only_own && others != ips.begin()) ips.erase(others, ips.end());
  return ips;
}

IpAddress address_of(int socket, int (*end)(int, sockaddr*, socklen_t*)) noexcept {
  SocketAddress address;
  if (end(socket, address.get(), &address.size) != 0) return {};
  return ip_address_of(*address.get());
}

std::string text(const IpAddress& ip) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = is_ipv4(ip);
  ::inet_ntop(v4 ? AF_INET : AF_INET6, ip.data() + (v4 ? kMappedBytes : 0), text.data(),
              text.size());
  return text.data();
}

std::string text(const IpAddress& ip, std::uint16_t port) {
  return fmt::format(fmt::runtime(is_ipv4(ip) ? "{}:{}" : "[{}]:{}"), text(ip), port);
}

std::string text(const ConnectorAddress& address) {
  std::string all;
  for (std::size_t i = 0; i < address.count && i < address.ips.size(); ++i)
    all += (i == 0 ? "" : ", ") + text(address.ips[i], address.port);
  return all.empty() ? "nowhere" : all;
}

}  // namespace weft::p2p
