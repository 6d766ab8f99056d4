// Which of a port's GIDs packets are sent from.
#pragma once

#include "p2p/transport/verbs/api/verbs.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace weft::p2p::verbs {

using GidBytes = std::array<std::byte, 16>;

GidBytes bytes_of(const ibv_gid& gid) noexcept;
/// "10.9.0.10" for an IPv4 address mapped into it, otherwise as IPv6.
std::string gid_text(const GidBytes& gid);
/// "RoCE v2"
const char* gid_type_text(std::uint32_t type) noexcept;
/// Whether routers pass no packet to or from it: fe80::/10, or 169.254/16 mapped.
bool is_link_local(const GidBytes& gid) noexcept;
bool is_ipv4(const GidBytes& gid) noexcept;

struct GidChoice {
  std::optional<ibv_gid_entry> entry;
  std::string why;  ///< it was chosen, or there is none
};

/// InfiniBand: index 0. Ethernet: of type RoCE v2, an IPv4 address before a global IPv6 one, then
/// the lowest index; never a link-local one. `wanted` (WEFT_IB_GID), unless negative, overrides: it
/// need only be in the table.
GidChoice choose_gid(std::span<const ibv_gid_entry> table, std::uint8_t link_layer, int wanted);

}  // namespace weft::p2p::verbs
