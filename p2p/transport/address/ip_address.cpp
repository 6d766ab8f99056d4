#include "p2p/transport/address/ip_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "weft/error.hpp"

namespace weft::p2p {
namespace {

constexpr std::size_t kMappedBytes = 12;  // before the IPv4 address in an IPv6 one
constexpr int kMappedBits = 8 * kMappedBytes;

struct Prefix {
  Place place{};
  int bits = 128;
};

bool in_prefix(const Place& place, const Place& prefix, int bits) {
  for (std::size_t i = 0; i < place.size() && bits > 0; ++i, bits -= 8) {
    const auto kept = bits >= 8 ? std::byte{0xff} : std::byte{0xff} << (8 - bits);
    if (((place[i] ^ prefix[i]) & kept) != std::byte{0}) return false;
  }
  return true;
}

Place mapped(const in_addr& address) {
  Place place{};
  place[10] = place[11] = std::byte{0xff};
  std::memcpy(place.data() + kMappedBytes, &address, sizeof address);
  return place;
}

std::optional<Place> parse_place(const std::string& text) {
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return mapped(v4);
  Place place{};
  if (::inet_pton(AF_INET6, text.c_str(), place.data()) == 1) return place;
  return std::nullopt;
}

/// An address alone is a prefix of all its bits.
std::optional<Prefix> parse_prefix(std::string_view text) {
  const auto slash = text.find('/');
  const auto place = parse_place(std::string(text.substr(0, slash)));
  if (!place) return std::nullopt;
  Prefix prefix{.place = *place};
  if (slash == text.npos) return prefix;
  const auto bits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(bits.begin(), bits.end(), prefix.bits);
  if (error != std::errc{} || end != bits.end() || prefix.bits < 0) return std::nullopt;
  if (is_ipv4(*place)) prefix.bits += kMappedBits;
  return prefix.bits <= 128 ? std::optional(prefix) : std::nullopt;
}

/// Without its interface, a link-local IPv6 address says nothing to another host.
bool is_link_local(const Place& place) {
  if (is_ipv4(place)) return place[12] == std::byte{169} && place[13] == std::byte{254};
  return place[0] == std::byte{0xfe} && (place[1] & std::byte{0xc0}) == std::byte{0x80};
}

/// What containers and virtual machines of this host are plugged into: other hosts don't reach it,
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
std::vector<Place> best_first(const std::vector<InterfaceAddress>& eligible) {
  std::vector<Place> firsts;
  std::vector<Place> rest;
  for (auto at = eligible.begin(); at != eligible.end(); ++at) {
    const bool is_first = std::none_of(eligible.begin(), at, [&](const InterfaceAddress& a) {
      return a.name == at->name && is_ipv4(a.place) == is_ipv4(at->place);
    });
    (is_first ? firsts : rest).push_back(at->place);
  }
  std::stable_partition(firsts.begin(), firsts.end(), is_ipv4);
  firsts.insert(firsts.end(), rest.begin(), rest.end());
  firsts.resize(std::min(firsts.size(), ConnectorAddress::kMaxPlaces));
  return firsts;
}

template <typename Filter>
std::vector<Place> choose(std::span<const InterfaceAddress> addresses, const Filter& filter) {
  std::vector<InterfaceAddress> eligible;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(eligible), filter);
  return best_first(eligible);
}

}  // namespace

bool is_ipv4(const Place& place) noexcept {
  constexpr Place kMapped = {{std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                              std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                              std::byte{0xff}, std::byte{0xff}}};
  return std::equal(kMapped.begin(), kMapped.begin() + kMappedBytes, place.begin());
}

SocketAddress socket_address(const Place& place, std::uint16_t port) noexcept {
  SocketAddress address;
  if (is_ipv4(place)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, place.data() + kMappedBytes, sizeof v4.sin_addr);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.size = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, place.data(), place.size());
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.size = sizeof v6;
  }
  return address;
}

Place place_of(const sockaddr& address) noexcept {
  Place place{};
  if (address.sa_family == AF_INET)
    return mapped(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  if (address.sa_family == AF_INET6)
    std::memcpy(place.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr,
                place.size());
  return place;
}

std::vector<Place> choose_places(std::span<const InterfaceAddress> addresses,
                                 std::string_view wanted) {
  if (wanted == "auto") {
    auto places = choose(addresses, [](const InterfaceAddress& a) {
      return !a.loopback && !is_link_local(a.place) && !is_of_containers(a.name);
    });
    // A host without a network: its own ranks still meet.
    if (places.empty()) places = choose(addresses, [](const auto& a) { return a.loopback; });
    return places;
  }
  const auto prefix = parse_prefix(wanted);
  auto places = choose(addresses, [&](const InterfaceAddress& a) {
    const bool asked = prefix ? in_prefix(a.place, prefix->place, prefix->bits) : a.name == wanted;
    return asked && (is_ipv4(a.place) || !is_link_local(a.place));
  });
  if (!places.empty()) return places;
  std::string known;
  for (const InterfaceAddress& a : addresses)
    known += fmt::format("{}{} {}", known.empty() ? "" : ", ", a.name, text(a.place));
  throw Error(ErrorDetail{
      .code = Code::bad_config,
      .operation = "join",
      .message = fmt::format("WEFT_IFACE=\"{}\" is none of this host's interfaces that are up: {}",
                             wanted, known),
      .hint = "name one of them, an address, a prefix, or auto"});
}

std::vector<Place> order_of_trial(const ConnectorAddress& peer,
                                  std::span<const InterfaceAddress> own) {
  std::vector<Place> places(
      peer.places.begin(),
      peer.places.begin() + std::min<std::ptrdiff_t>(peer.count, ConnectorAddress::kMaxPlaces));
  std::stable_partition(places.begin(), places.end(), [&](const Place& place) {
    return std::any_of(own.begin(), own.end(), [&](const InterfaceAddress& a) {
      return in_prefix(place, a.place, a.prefix_bits);
    });
  });
  return places;
}

std::string text(const Place& place) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = is_ipv4(place);
  ::inet_ntop(v4 ? AF_INET : AF_INET6, place.data() + (v4 ? kMappedBytes : 0), text.data(),
              text.size());
  return text.data();
}

std::string text(const Place& place, std::uint16_t port) {
  return fmt::format(fmt::runtime(is_ipv4(place) ? "{}:{}" : "[{}]:{}"), text(place), port);
}

std::string text(const ConnectorAddress& address) {
  std::string all;
  for (std::size_t i = 0; i < address.count && i < address.places.size(); ++i)
    all += (i == 0 ? "" : ", ") + text(address.places[i], address.port);
  return all.empty() ? "nowhere" : all;
}

}  // namespace weft::p2p
