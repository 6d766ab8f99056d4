// Access Control Services of a bridge port: whether it sends peer-to-peer traffic up to the host.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace weft::topology {

inline constexpr std::size_t kConfigBytes = 4096;

/// From a function's configuration space. nullopt where the extended part was not given, which only
/// root may read; false where the port has no ACS.
std::optional<bool> acs_redirects(const std::string& config) noexcept;

}  // namespace weft::topology
