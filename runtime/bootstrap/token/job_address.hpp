// WEFT_ADDR, the address of rank 0. WEFT_SUBSCRIBE_ADDR has the same format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"

namespace weft::bootstrap {

struct JobAddress {
  std::string host;  ///< a numeric address, or a name for the resolver
  std::uint16_t port = 0;
  bool is_numeric = false;
  std::string variable = "WEFT_ADDR";  ///< the variable that gave this address, for messages

  /// Formats the address: "host:port", "[fd00::1]:4711".
  std::string text() const;
};

/// Parses "host:port" or "[IPv6]:port". Throws Error(bad_config) for any other text, for port 0,
/// and for a wildcard address.
JobAddress parse_job_address(std::string_view text, std::string_view variable = "WEFT_ADDR");

struct Resolved {
  std::vector<p2p::IpAddress> ips;  ///< if empty, `trouble` has the reason
  std::string trouble;
};

/// Returns a numeric address itself. Resolves a name with the system's resolver, which may block
/// for seconds.
Resolved resolve(const JobAddress& address);

/// The addresses at which this process listens (rank 0, or a publisher): those of `resolved` that
/// belong to this host; if there are none, because the address is forwarded, the addresses of
/// `iface` (WEFT_IFACE). Throws Error(bad_config).
std::vector<p2p::IpAddress> own_ips(const JobAddress& address, const Resolved& resolved,
                                    std::string_view iface);

}  // namespace weft::bootstrap
