// The network interfaces by which this host reaches others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/discover/files.hpp"

namespace weft::doctor {

struct NetInterface {
  std::string name;
  bool of_hardware = false;  ///< a NIC, or a bond of NICs; false: made of software
  bool is_ethernet = false;
  std::optional<long> mtu;
  std::optional<long> mbit_per_second;  ///< nullopt: the driver does not report a speed

  double gbps() const noexcept { return static_cast<double>(mbit_per_second.value_or(0)) / 1000; }
};

/// The interfaces that are up, sorted by name, without loopback and without members of a bond,
/// which the bond stands for.
std::vector<NetInterface> interfaces_up(const topology::Files& files);

/// The interfaces of hardware; all if there are none, as in a container.
std::vector<NetInterface> interfaces_to_others(const topology::Files& files);

}  // namespace weft::doctor
