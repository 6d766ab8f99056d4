#include "runtime/bootstrap/token/job_address.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/fail.hpp"
#include "weft/error.hpp"

namespace weft::bootstrap {
namespace {

/// A variable and its value, for error messages.
struct Said {
  std::string_view variable;
  std::string_view text;

  [[noreturn]] void refuse(std::string_view why, std::string_view hint) const {
    throw_error(Code::bad_config, "join", fmt::format("{}=\"{}\": {}", variable, text, why),
                std::string(hint));
  }
};

constexpr std::string_view kAccepted = "accepted: host:port or [IPv6]:port, such as 10.0.0.1:29400";

struct FreeAddresses {
  void operator()(addrinfo* all) const noexcept { ::freeaddrinfo(all); }
};

Resolved look_up(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return {.ips = {}, .trouble = ::gai_strerror(error)};
  const std::unique_ptr<addrinfo, FreeAddresses> all(found);
  Resolved resolved;
  for (const addrinfo* at = all.get(); at != nullptr; at = at->ai_next) {
    const p2p::IpAddress ip = p2p::ip_address_of(*at->ai_addr);
    if (std::find(resolved.ips.begin(), resolved.ips.end(), ip) == resolved.ips.end())
      resolved.ips.push_back(ip);
  }
  return resolved;
}

bool is_wildcard(const p2p::IpAddress& ip) {
  const auto first = ip.begin() + (p2p::is_ipv4(ip) ? 12 : 0);
  return std::all_of(first, ip.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

std::string JobAddress::text() const {
  const bool brackets = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", host, brackets ? "]" : "", port);
}

JobAddress parse_job_address(std::string_view text, std::string_view variable) {
  const Said said{variable, text};
  JobAddress address;
  address.variable = variable;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find("]:");
    if (end == text.npos) said.refuse("a port is missing", kAccepted);
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 2);
  } else {
    const auto colon = text.rfind(':');
    if (colon == text.npos) said.refuse("a port is missing", kAccepted);
    if (text.find(':') != colon) said.refuse("an IPv6 address stands in brackets", kAccepted);
    address.host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size() || address.port == 0)
    said.refuse("the port is no number from 1 to 65535", kAccepted);
  if (address.host.empty()) said.refuse("the host is missing", kAccepted);
  const Resolved numeric = look_up(address.host, AI_NUMERICHOST);
  address.is_numeric = !numeric.ips.empty();
  if (text.starts_with('[') && !address.is_numeric)
    said.refuse("the text in brackets is no IPv6 address", kAccepted);
  if (address.is_numeric && is_wildcard(numeric.ips[0]))
    said.refuse("no peer can connect to a wildcard address",
                "name an address of the host that listens there");
  return address;
}

Resolved resolve(const JobAddress& address) {
  return look_up(address.host, address.is_numeric ? AI_NUMERICHOST : 0);
}

std::vector<p2p::IpAddress> own_ips(const JobAddress& address, const Resolved& resolved,
                                    std::string_view iface) {
  const p2p::Interfaces host = p2p::interfaces();
  const auto& interfaces = host.addresses;
  std::vector<p2p::IpAddress> own;
  for (const p2p::IpAddress& ip : resolved.ips)
    // All addresses of 127.0.0.0/8 belong to this host.
    if (std::any_of(interfaces.begin(), interfaces.end(),
                    [&](const p2p::InterfaceAddress& a) { return a.ip == ip; }) ||
        (p2p::is_ipv4(ip) && ip[12] == std::byte{127}))
      own.push_back(ip);
  if (!own.empty()) return own;
  if (iface != "auto") return p2p::choose_ip_addresses(host, iface).ips;
  std::string known;
  for (const p2p::InterfaceAddress& a : interfaces)
    known += fmt::format("{}{} {}", known.empty() ? "" : ", ", a.name, p2p::text(a.ip));
  Said{address.variable, address.text()}.refuse(
      resolved.ips.empty()
          ? resolved.trouble
          : fmt::format(
                "the host that is to listen there does not have this address; the host has {}",
                known),
      "name an address of that host; if another address is forwarded to the host, set WEFT_IFACE "
      "there to the interface to listen on");
}

}  // namespace weft::bootstrap
