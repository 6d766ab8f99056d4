#include "p2p/transport/verbs/device/gid_choice.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weft::p2p::verbs {
namespace {

bool is_zero(const GidBytes& gid) noexcept {
  return std::all_of(gid.begin(), gid.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// "0 (fe80::1, RoCE v2), 1 (10.9.0.10, RoCE v2)"
std::string list(std::span<const ibv_gid_entry> table) {
  std::string text;
  for (const ibv_gid_entry& entry : table) {
    const GidBytes gid = bytes_of(entry.gid);
    if (is_zero(gid)) continue;
    fmt::format_to(std::back_inserter(text), "{}{} ({}, {})", text.empty() ? "" : ", ",
                   entry.gid_index, gid_text(gid), gid_type_text(entry.gid_type));
  }
  return text.empty() ? "none" : text;
}

const ibv_gid_entry* find(std::span<const ibv_gid_entry> table, std::uint32_t index) {
  const auto found = std::find_if(table.begin(), table.end(), [index](const ibv_gid_entry& entry) {
    return entry.gid_index == index && !is_zero(bytes_of(entry.gid));
  });
  return found == table.end() ? nullptr : &*found;
}

/// The lower the better; nullopt: not by rule.
std::optional<int> preference(const ibv_gid_entry& entry) {
  const GidBytes gid = bytes_of(entry.gid);
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || is_zero(gid) || is_link_local(gid))
    return std::nullopt;
  return is_ipv4(gid) ? 0 : 1;
}

GidChoice choose_by_rule(std::span<const ibv_gid_entry> table) {
  const ibv_gid_entry* best = nullptr;
  const auto worth = [](const ibv_gid_entry& entry) {
    return std::pair(*preference(entry), entry.gid_index);
  };
  for (const ibv_gid_entry& entry : table)
    if (preference(entry) && (best == nullptr || worth(entry) < worth(*best))) best = &entry;
  if (best == nullptr)
    return {std::nullopt, fmt::format("has no routable RoCE v2 GID, as its network interface has "
                                      "no address: its GIDs are {}",
                                      list(table))};
  return {*best, *preference(*best) == 0
                     ? "the first RoCE v2 GID of an IPv4 address"
                     : "the first RoCE v2 GID of a global IPv6 address; no IPv4 "
                       "address is there"};
}

}  // namespace

GidBytes bytes_of(const ibv_gid& gid) noexcept {
  GidBytes bytes{};
  std::memcpy(bytes.data(), gid.raw, bytes.size());
  return bytes;
}

bool is_ipv4(const GidBytes& gid) noexcept {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.data(), kMapped.data(), kMapped.size()) == 0;
}

bool is_link_local(const GidBytes& gid) noexcept {
  if (is_ipv4(gid)) return gid[12] == std::byte{169} && gid[13] == std::byte{254};
  return gid[0] == std::byte{0xfe} && (gid[1] & std::byte{0xc0}) == std::byte{0x80};
}

std::string gid_text(const GidBytes& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4(gid))
    ::inet_ntop(AF_INET, gid.data() + 12, text.data(), text.size());
  else
    ::inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
  return text.data();
}

const char* gid_type_text(std::uint32_t type) noexcept {
  switch (type) {
    case IBV_GID_TYPE_IB:
      return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1:
      return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
      return "RoCE v2";
    default:
      return "unknown type";
  }
}

GidChoice choose_gid(std::span<const ibv_gid_entry> table, std::uint8_t link_layer, int wanted) {
  if (wanted >= 0) {
    const ibv_gid_entry* entry = find(table, static_cast<std::uint32_t>(wanted));
    if (entry != nullptr) return {*entry, fmt::format("WEFT_IB_GID={}", wanted)};
    return {std::nullopt,
            fmt::format("has no GID {} (WEFT_IB_GID): its GIDs are {}", wanted, list(table))};
  }
  if (link_layer == IBV_LINK_LAYER_ETHERNET) return choose_by_rule(table);
  const ibv_gid_entry* first = find(table, 0);
  if (first == nullptr) return {std::nullopt, "has no GID 0"};
  return {*first, "the first, as for any InfiniBand port"};
}

}  // namespace weft::p2p::verbs
