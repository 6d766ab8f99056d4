// WEFT_ADDR: where the ranks of a job find rank 0. WEFT_SUBSCRIBE_ADDR is written alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"

namespace weft::bootstrap {

struct JobAddress {
  std::string host;  ///< an address, or a name that the user wants to be looked up
  std::uint16_t port = 0;
  bool is_numeric = false;
  std::string variable = "WEFT_ADDR";  ///< that said so

  /// "host:port", "[fd00::1]:4711".
  std::string text() const;
};

/// Throws Error(bad_config) for what is neither "host:port" nor "[IPv6]:port", port 0, or an
/// address that stands for all of them.
JobAddress parse_job_address(std::string_view text, std::string_view variable = "WEFT_ADDR");

struct Resolved {
  std::vector<p2p::IpAddress> ips;  ///< none: `trouble` says why
  std::string trouble;
};

/// The address itself; a name is looked up by the system's resolver, which may take its time.
Resolved resolve(const JobAddress& address);

/// Where rank 0, or who takes subscribers in, listens: what of `resolved` belongs to this host;
/// where none does (the address is forwarded), the places that WEFT_IFACE names. Throws
/// Error(bad_config).
std::vector<p2p::IpAddress> own_ips(const JobAddress& address, const Resolved& resolved,
                                    std::string_view iface);

}  // namespace weft::bootstrap
